package decoder

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/protocol"
)

func TestParseHistory(t *testing.T) {
	for _, tc := range []struct {
		name, content string
		want          History
		err           string
	}{
		{"empty", "", nil, ""},
		{"as the server writes it", "1\t0/3000148\tno recovery target specified\n\n2\t0/5000000\tbefore 2000-01-01\n",
			History{{1, 0x3000148}, {2, 0x5000000}}, ""},
		{"comments", "# begin\n1\t0/10 # why\n\n", History{{1, 0x10}}, ""},
		{"no newline at the end", "1\t0/10", History{{1, 0x10}}, ""},
		{"gap in the numbers", "1\t0/10\n7\t0/20\n", History{{1, 0x10}, {7, 0x20}}, ""},
		{"CRLF", "1\t0/10\r\n", History{{1, 0x10}}, ""},
		{"no LSN", "1\n", nil, "line 1: want a timeline and an LSN"},
		{"bad timeline", "x 0/10\n", nil, `line 1: bad timeline "x"`},
		{"timeline 0", "0 0/10\n", nil, `bad timeline "0"`},
		{"timeline past 32 bits", "4294967296 0/10\n", nil, `bad timeline "4294967296"`},
		{"bad LSN", "1 0/10\n2 0/10x\n", nil, "line 2: parse LSN"},
		{"the same twice", "1 0/10\n1 0/20\n", nil, "timeline 1 does not follow 1"},
		{"backwards", "2 0/10\n1 0/20\n", nil, "timeline 1 does not follow 2"},
	} {
		got, err := ParseHistory(tc.content)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
		if text := fmt.Sprint(err); (err == nil) != (tc.err == "") || !strings.Contains(text, tc.err) && err != nil {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.err)
		}
	}
}

func TestHistorySwitch(t *testing.T) {
	h := History{{1, 0x10}, {3, 0x30}}
	for _, tc := range []struct {
		tli   uint32
		want  protocol.LSN
		known bool
	}{{1, 0x10, true}, {3, 0x30, true}, {2, 0, false}, {4, 0, false}, {0, 0, false}} {
		if got, known := h.SwitchFrom(tc.tli); got != tc.want || known != tc.known {
			t.Errorf("SwitchFrom(%d) = %v, %v, want %v, %v", tc.tli, got, known, tc.want, tc.known)
		}
	}
	if got := h.LastSwitch(); got != 0x30 {
		t.Errorf("LastSwitch = %v, want 0/30", got)
	}
	if got := History(nil).LastSwitch(); got != protocol.InvalidLSN {
		t.Errorf("LastSwitch of a first timeline = %v, want 0/0", got)
	}
}

func TestHistoryHolds(t *testing.T) {
	h := History{{1, 0x10}, {3, 0x30}}
	for _, tc := range []struct {
		tli  uint32
		at   protocol.LSN
		end  protocol.LSN
		want bool
	}{
		{1, 0x10, 0x10, true}, {1, 0x11, 0x10, false}, {3, 0x11, 0x30, true}, {3, 0x31, 0x30, false},
		{4, 0x99, 0, true}, // the current one
		{2, 0x01, 0, false}, {5, 0x01, 0, false},
	} {
		if end, ok := h.Holds(tc.tli, 4, tc.at); end != tc.end || ok != tc.want {
			t.Errorf("Holds(%d, 4, %v) = %v, %t, want %v, %t", tc.tli, tc.at, end, ok, tc.end, tc.want)
		}
	}
	// A switch that lies before an earlier one was made on a server that had less.
	if end, ok := (History{{1, 0x30}, {2, 0x10}}).Holds(1, 3, 0x20); end != 0x10 || ok {
		t.Errorf("a later switch that is lower: got %v, %t", end, ok)
	}
}

// FuzzParseHistory checks that what is read is in order, and reads the same when
// it is written again.
func FuzzParseHistory(f *testing.F) {
	f.Add("1\t0/3000148\tno recovery target specified\n\n2\t0/5000000\tx\n")
	f.Add("# c\n1 0/1 # d\r\n")
	f.Add("1 0/1\n1 0/2\n")
	f.Fuzz(func(t *testing.T, content string) {
		h, err := ParseHistory(content)
		if err != nil {
			if h != nil {
				t.Fatalf("with error %v: %v", err, h)
			}
			return
		}
		var out strings.Builder
		last := uint32(0)
		for _, e := range h {
			if e.TimelineID <= last {
				t.Fatalf("timeline %d after %d", e.TimelineID, last)
			}
			last = e.TimelineID
			fmt.Fprintf(&out, "%d\t%v\treason\n", e.TimelineID, e.Switch)
		}
		again, err := ParseHistory(out.String())
		if err != nil || !slices.Equal(again, h) {
			t.Fatalf("read again: got %v, %v, want %v", again, err, h)
		}
	})
}
