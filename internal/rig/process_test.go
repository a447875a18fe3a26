package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/procstat"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

// freeAddr is an address where nobody listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	port, release, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return "127.0.0.1:" + strconv.Itoa(port)
}

// startProc starts a process that ends with the test.
func startProc(t *testing.T, proc *Process) {
	t.Helper()
	if err := proc.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("---- %s\n%s", proc.name, proc.Log())
		}
		if !proc.Running() {
			return
		}
		if err := proc.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// document is the whole status of a process.
func document(ctx context.Context, proc *Process) (*statusdoc.Document, error) {
	raw, err := proc.Document(ctx)
	if err != nil {
		return nil, err
	}
	d := new(statusdoc.Document)
	return d, json.Unmarshal(raw, d)
}

// notReady waits until a process says that this keeps it from being ready.
func (p *testPair) notReady(proc *Process, reason string) (found statusdoc.NotReady) {
	p.t.Helper()
	p.until(proc.name+" not to be ready because of "+reason, func(ctx context.Context) (bool, string) {
		d, err := document(ctx, proc)
		if err != nil {
			return false, err.Error()
		}
		for _, n := range d.NotReady {
			if n.Reason == reason {
				found = n
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v", d.NotReady)
	})
	return found
}

// rss is the memory that a process has resident, in bytes.
func rss(t *testing.T, proc *Process) int64 {
	t.Helper()
	n := procstat.RSS(proc.PID())
	if n == 0 {
		t.Fatalf("process %d is not there", proc.PID())
	}
	return n
}
