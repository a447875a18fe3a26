package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/slotferry/slotferry/protocol"
)

// TestHoldBackTranscripts runs the transcripts of testdata/holdback.
//
//	parse    each line of input is a list of standbys
//	view     the first line is a list of standbys; each other line is a walsender:
//	         NAME FLUSH [slot=NAME] [catchup] [logical] [relayed=FLUSH] (what the
//	         relay's own session heard) [elsewhere] (a session of the relay that the
//	         server does not list). ending: the server shuts down
//	unknown  the line is a list of standbys; the slot source has read nothing
//	decide   each line is a position; [exempt] [letgo] [unlisted] [waslisted] [held=]
//	         [limit=]
func TestHoldBackTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/holdback", func(t *testing.T, path string) {
		var view *holdView
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			lines := strings.Split(d.Input, "\n")
			switch d.Cmd {
			case "parse":
				for _, line := range lines {
					out.WriteString(parsedNames(line) + "\n")
				}
			case "view":
				view = transcriptView(t, lines, d.HasArg("ending"))
				fmt.Fprintf(&out, "position %v\n", view.position)
			case "unknown":
				view = newHoldView(mustNames(t, lines[0]), nil, nil, false)
			case "decide":
				s := holdStream{
					Walsender: streamPID, Exempt: d.HasArg("exempt"), LetGo: d.HasArg("letgo"), WasListed: d.HasArg("waslisted"),
				}
				if d.HasArg("unlisted") {
					s.Walsender++
				}
				s.Held, s.Limit = argDuration(t, d, "held"), argDuration(t, d, "limit")
				for _, line := range lines {
					out.WriteString(view.decide(s, mustLSN(t, line)).String() + "\n")
				}
			default:
				d.Fatalf(t, "no command %q", d.Cmd)
			}
			return out.String()
		})
	})
}

const streamPID = 7 // of the walsender that the decisions are about

func parsedNames(text string) string {
	n, err := ParseStandbyNames(text)
	if err != nil {
		return err.Error()
	}
	method := "FIRST"
	if n.any {
		method = "ANY"
	}
	return fmt.Sprintf("%s %d of %q", method, n.n, n.names)
}

func mustNames(t testing.TB, text string) *StandbyNames {
	t.Helper()
	n, err := ParseStandbyNames(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func mustLSN(t testing.TB, text string) protocol.LSN {
	t.Helper()
	l, err := protocol.ParseLSN(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func argDuration(t testing.TB, d *datadriven.TestData, name string) time.Duration {
	t.Helper()
	var text string
	if !d.MaybeScanArgs(t, name, &text) {
		return 0
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func transcriptView(t testing.TB, lines []string, ending bool) *holdView {
	t.Helper()
	read := &walsenders{list: []walsender{{pid: streamPID}}}
	relayed := map[uint32]relayedStandby{}
	for i, line := range lines[1:] {
		fields := strings.Fields(line)
		w := walsender{pid: uint32(100 + i), physical: true}
		w.ApplicationName, w.Flush, w.Streaming = fields[0], mustLSN(t, fields[1]), true
		elsewhere := false
		for _, f := range fields[2:] {
			key, value, _ := strings.Cut(f, "=")
			switch key {
			case "slot":
				w.Slot = value
			case "catchup":
				w.Streaming = false
			case "logical":
				w.physical = false
			case "relayed":
				r := relayedStandby{Standby: w.Standby}
				r.Flush = mustLSN(t, value)
				relayed[w.pid] = r
			case "elsewhere":
				relayed[w.pid], elsewhere = relayedStandby{Standby: w.Standby}, true
			default:
				t.Fatalf("no attribute %q", f)
			}
		}
		if !elsewhere {
			read.list = append(read.list, w)
		}
	}
	return newHoldView(mustNames(t, lines[0]), read, relayed, ending)
}

// drawStandbys draws a list of standbys and what they have flushed.
func drawStandbys(t *rapid.T) (*StandbyNames, []Standby) {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	n := &StandbyNames{
		any: rapid.Bool().Draw(t, "any"), n: rapid.IntRange(1, 4).Draw(t, "n"),
		names: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "*"}), 1, 4).Draw(t, "names"),
	}
	return n, rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Standby {
		return Standby{
			ApplicationName: name.Draw(t, "name"), Flush: protocol.LSN(rapid.Uint64Range(0, 9).Draw(t, "flush")),
			Streaming: rapid.Bool().Draw(t, "streaming"),
		}
	}), 0, 6).Draw(t, "standbys")
}

// The position is what enough standbys have flushed: never more. It is what
// enough have flushed exactly, and it never goes back when a standby flushes more.
func TestPositionProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names, standbys := drawStandbys(t)
		position := names.Position(standbys)
		have, counting := 0, 0
		for i := range standbys {
			s := &standbys[i]
			if names.priority(s) > 0 && s.Streaming && s.Flush > 0 {
				counting++
				if s.Flush >= position {
					have++
				}
			}
		}
		switch {
		case counting < names.n:
			if position != protocol.InvalidLSN {
				t.Fatalf("%d standbys count, %d must have it, position %v", counting, names.n, position)
			}
		case have < names.n:
			t.Fatalf("position %v is flushed by %d, not by %d", position, have, names.n)
		case position == protocol.InvalidLSN:
			t.Fatalf("%d standbys count and there is no position", counting)
		}
		if len(standbys) == 0 {
			return
		}
		grown := append([]Standby(nil), standbys...)
		s := &grown[rapid.IntRange(0, len(grown)-1).Draw(t, "which")]
		if s.Flush == protocol.InvalidLSN {
			return // one more that counts can take the place of another
		}
		s.Flush += protocol.LSN(rapid.Uint64Range(1, 9).Draw(t, "more"))
		if after := names.Position(grown); after < position {
			t.Fatalf("position went from %v back to %v when %s flushed more", position, after, s.ApplicationName)
		}
	})
}

// ANY n is the most that n standbys have flushed; FIRST n looks at no other than
// the n first, whatever the others have.
func TestFirstAndAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names, standbys := drawStandbys(t)
		quorum, first := *names, *names
		quorum.any, first.any = true, false
		q, f := quorum.Position(standbys), first.Position(standbys)
		if f > q {
			t.Fatalf("FIRST %d is at %v, past ANY %d at %v", names.n, f, names.n, q)
		}
		have := 0
		for i := range standbys {
			s := &standbys[i]
			if names.priority(s) > 0 && s.Streaming && s.Flush > q {
				have++
			}
		}
		if q != protocol.InvalidLSN && have >= names.n {
			t.Fatalf("%d standbys have more than %v", have, q)
		}
		last := 0
		for _, c := range first.candidates(standbys) {
			last = max(last, c.priority)
		}
		grown := append([]Standby(nil), standbys...)
		for i := range grown {
			if p := names.priority(&grown[i]); p > last && grown[i].Flush > 0 {
				grown[i].Flush += 100
			}
		}
		if after := first.Position(grown); after != f {
			t.Fatalf("FIRST %d went from %v to %v, and only those behind the first flushed more", names.n, f, after)
		}
	})
}

// A message passes exactly when its position is flushed; what passes with less
// known passes with more flushed.
func TestDecideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names, standbys := drawStandbys(t)
		read := &walsenders{list: []walsender{{pid: streamPID}}}
		for i, s := range standbys {
			read.list = append(read.list, walsender{pid: uint32(100 + i), physical: true, Standby: s})
		}
		v := newHoldView(names, read, nil, false)
		s := holdStream{
			Walsender: streamPID, Exempt: rapid.Bool().Draw(t, "exempt"), LetGo: rapid.Bool().Draw(t, "let go"),
			Held:  time.Duration(rapid.IntRange(0, 3).Draw(t, "held")),
			Limit: time.Duration(rapid.IntRange(0, 3).Draw(t, "limit")),
		}
		end := protocol.LSN(rapid.Uint64Range(0, 12).Draw(t, "end"))
		d := v.decide(s, end)
		free := s.Exempt || s.LetGo || s.Limit > 0 && s.Held >= s.Limit
		pass := d.Verdict == holdPass
		if want := free || end <= names.Position(standbys); pass != want {
			t.Fatalf("%v, want pass %v", d, want)
		}
		if !pass && len(d.By) == 0 {
			t.Fatalf("%v names nobody", d)
		}
		if pass && d.Reason == HoldFlushed && end > names.Position(standbys) {
			t.Fatalf("%v, and the standbys are at %v", d, names.Position(standbys))
		}
	})
}

// FuzzParseStandbyNames checks that what is read can be written in full, and reads
// the same again.
func FuzzParseStandbyNames(f *testing.F) {
	for _, seed := range []string{"s1, s2", "ANY 1 (s1, s2)", "2 (*)", `FIRST 1 ("a ""b""", 7)`, `"`, "1(", "\xff, \x80a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseStandbyNames(text)
		if err != nil {
			return
		}
		if n.n < 1 || len(n.names) == 0 || n.String() != text {
			t.Fatalf("%q reads as %+v", text, n)
		}
		var quoted []string
		for _, name := range n.names {
			quoted = append(quoted, `"`+strings.ReplaceAll(name, `"`, `""`)+`"`)
		}
		method := "FIRST"
		if n.any {
			method = "ANY"
		}
		again, err := ParseStandbyNames(fmt.Sprintf("%s %d (%s)", method, n.n, strings.Join(quoted, ",")))
		if err != nil || again.n != n.n || again.any != n.any || !slices.Equal(again.names, n.names) {
			t.Fatalf("%q reads as %+v, written in full as %+v, %v", text, n, again, err)
		}
	})
}
