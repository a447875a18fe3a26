package inspect

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/protocol/trace"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files under testdata anew")

const session = "../../testdata/capture/session.capture"

// inspect runs an inspection and returns what it printed. ErrFaults is not a
// failure of the test.
func inspect(t testing.TB, data []byte, o Options) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := Run(t.Context(), bytes.NewReader(data), &out, o)
	if err != nil && !errors.Is(err, ErrFaults) {
		t.Fatal(err)
	}
	return out.String(), err
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// golden compares with a file, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := string(readFile(t, name))
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("%s differs in line %d of %d (%d):\n%s\nwant\n%s", name, i+1, len(g), len(w), line(g, i), line(w, i))
		}
	}
}

func line(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "(none)"
}

func TestGolden(t *testing.T) {
	data := readFile(t, session)
	for name, o := range map[string]Options{
		"session.txt":         {At: -1},
		"session.json":        {At: -1, JSON: true},
		"session.summary.txt": {At: -1, Summary: true},
		"session.at.txt":      {At: 2700},
		"session.slot.txt":    {At: -1, NoRecords: true, Filter: trace.Filter{Slot: "orders"}},
		"session.types.txt":   {At: -1, Filter: trace.Filter{Types: []string{"insert", "SlotMessage"}, Directions: []trace.Direction{trace.Downstream}}},
		"session.lsn.txt":     {At: -1, NoRecords: true, Filter: trace.Filter{From: 0x20103A8, To: 0x2010420, Connections: []uint64{2}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := inspect(t, data, o)
			if err != nil {
				t.Errorf("inspect: %v", err)
			}
			golden(t, "../../testdata/capture/"+name, got)
		})
	}
}

// TestTornCapture cuts a capture anywhere: what is whole is shown, and the
// account balances.
func TestTornCapture(t *testing.T) {
	data := readFile(t, session)
	for n := len(protocol.CaptureMagic); n < 2600; n += 3 {
		p := newPrinter(&bytes.Buffer{}, Options{At: -1, Summary: true})
		if err := p.readCapture(t.Context(), bytes.NewReader(data[:n])); err != nil {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
		_ = p.finish()
		if !p.account.Balanced(int64(n)) {
			t.Fatalf("cut to %d bytes: the account does not balance: %+v", n, p.account)
		}
	}
}

// TestDamagedCapture damages a capture's records: the account balances, and whatever is
// hit is a fault.
func TestDamagedCapture(t *testing.T) {
	data := readFile(t, session)[:4000]
	for at := 28; at < 2600; at += 7 { // a longer record follows, which the cut has torn
		bad := bytes.Clone(data)
		bad[at] ^= 0x10
		p := newPrinter(&bytes.Buffer{}, Options{At: -1, Summary: true})
		if err := p.readCapture(t.Context(), bytes.NewReader(bad)); err != nil {
			t.Fatalf("byte %d: %v", at, err)
		}
		err := p.finish()
		if !p.account.Balanced(int64(len(bad))) {
			t.Fatalf("byte %d: the account does not balance: %+v", at, p.account)
		}
		if !errors.Is(err, ErrFaults) || p.account.Damaged == 0 {
			t.Fatalf("byte %d: the damage is not noticed", at)
		}
	}
}

// TestAt finds every message by each of its bytes.
func TestAt(t *testing.T) {
	data := readFile(t, session)
	all, _ := inspect(t, data, Options{At: -1})
	for _, l := range strings.Split(strings.TrimSpace(all), "\n")[:30] {
		fields := strings.Split(l, "\t")
		got, err := inspect(t, data, Options{At: atoi(t, fields[3])})
		if err != nil || got != l+"\n" {
			t.Errorf("--at %s: %q, %v, want %q", fields[3], got, err, l)
		}
	}
}

func atoi(t *testing.T, s string) (n int64) {
	t.Helper()
	for _, c := range s {
		n = n*10 + int64(c-'0')
	}
	return n
}
