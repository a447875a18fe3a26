package procstat

import (
	"os"
	"testing"
	"time"
)

// What this process does is seen: 50 ms of work count as such, and memory that was
// written to is resident.
func TestOwnProcess(t *testing.T) {
	before, memory := CPU(os.Getpid()), RSS(os.Getpid())
	held := make([]byte, 32<<20)
	for i := range held {
		held[i] = byte(i)
	}
	deadline := time.Now().Add(time.Minute) // a loaded machine gives little
	for CPU(os.Getpid())-before < 50*time.Millisecond {
		if time.Now().After(deadline) {
			t.Fatalf("%s of CPU time in a minute of work", CPU(os.Getpid())-before)
		}
	}
	if grown := RSS(os.Getpid()) - memory; grown < 16<<20 {
		t.Errorf("memory has grown by %d bytes, %d were written to", grown, len(held))
	}
}

// A process that is not there has used nothing.
func TestNoProcess(t *testing.T) {
	const none = 1 << 30
	if cpu, memory := CPU(none), RSS(none); cpu != 0 || memory != 0 {
		t.Errorf("CPU time is %s, memory %d, want none", cpu, memory)
	}
}
