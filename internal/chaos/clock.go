package chaos

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The clock of a process is moved as an administrator moves a machine's: the wall
// clock jumps, the monotonic one does not. For that the binary is built with one
// file of the standard library replaced, in which time.Now adds a number of
// seconds; chaos writes that number into the running process.
const (
	clockSource = "\tsec, nsec, mono := runtimeNow()\n"
	clockMoved  = "\tsec, nsec, mono := runtimeNow()\n\tsec += chaosSeconds\n"
	clockSymbol = "time.chaosSeconds"
	clockDef    = "\n// chaosSeconds is written from outside.\nvar chaosSeconds int64\n"
)

// ClockOverlay writes, into dir, what makes clocks movable, and returns the flags
// of "go build" for it.
func ClockOverlay(ctx context.Context, dir string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find the standard library: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return nil, fmt.Errorf("read the standard library's clock: %w", err)
	}
	before, after, found := strings.Cut(string(text), "\nfunc Now() Time {\n"+clockSource)
	if !found {
		return nil, fmt.Errorf("make clocks movable: time.Now of this Go does not begin as expected")
	}
	return Overlay(dir, map[string]string{original: before + "\nfunc Now() Time {\n" + clockMoved + after + clockDef})
}

// moveClock sets how many seconds the clock of a running process is off.
func moveClock(binary string, pid, seconds int) error {
	address, err := symbolAddress(binary, clockSymbol)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("move clock: %w", err)
	}
	_, err = f.WriteAt(nativeInt64(int64(seconds)), int64(address))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("move clock: %w", err)
	}
	return nil
}

func nativeInt64(n int64) []byte { return binary.NativeEndian.AppendUint64(nil, uint64(n)) }

// symbolAddress finds a variable in a binary that is loaded where it was linked.
func symbolAddress(path, name string) (uint64, error) {
	f, err := elf.Open(path)
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", name, err)
	}
	defer f.Close()
	if f.Type != elf.ET_EXEC {
		return 0, fmt.Errorf("find %s: %s is loaded anywhere", name, path)
	}
	symbols, err := f.Symbols()
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", name, err)
	}
	for _, s := range symbols {
		if s.Name == name {
			return s.Value, nil
		}
	}
	return 0, fmt.Errorf("find %s: it is not in %s", name, path)
}
