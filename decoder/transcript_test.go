package decoder

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestDecide runs the transcripts of Decide. "decide" begins from a healthy view,
// "then" goes on from the view and the tracks of the case before.
func TestDecide(t *testing.T) {
	datadriven.Walk(t, "testdata/decide", func(t *testing.T, path string) {
		var b *viewText
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "decide":
				b = newViewText(t)
			case "then":
				b.t = t
			default:
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			b.apply(d.Input)
			b.observe()
			decision := Decide(&b.v)
			again := Decide(&b.v)
			if got, want := printDecision(&again), printDecision(&decision); got != want {
				t.Errorf("the same view gives another decision:\n%s\nbefore:\n%s", got, want)
			}
			maps.Copy(b.v.Tracks, decision.Tracks)
			b.v.Anchor.Proven, b.v.Anchor.ProvenBy = decision.AnchorProven, decision.ProvenBy
			b.v.Protection = decision.Protection
			return printDecision(&decision)
		})
	})
}

// TestPlanPromotion runs the transcripts of PlanPromotion. The server is out of
// recovery on timeline 2 unless a line says otherwise.
func TestPlanPromotion(t *testing.T) {
	datadriven.Walk(t, "testdata/promotion", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b := newViewText(t)
			b.v.Standby.InRecovery, b.v.Standby.ReceivedTLI = false, 0
			b.apply(d.Input)
			timeline := uint32(len(b.history) + 1)
			report := PlanPromotion(&PromotionView{
				Standby: b.v.Standby, Timeline: timeline, History: b.history, Owned: b.v.Owned, Tracks: b.v.Tracks,
			})
			var out strings.Builder
			for _, p := range report.Slots {
				fmt.Fprintf(&out, "%s %s", p.Name, p.Action)
				if p.Action == PromotionAdvance {
					fmt.Fprintf(&out, " to %v", p.Target)
				}
				switch {
				case p.Usable:
					out.WriteString(", usable")
				case p.Reason != ReasonNone:
					fmt.Fprintf(&out, ": %s", p.Reason)
				}
				if p.Ahead != nil {
					fmt.Fprintf(&out, ", subscriber ahead from %v to %v", p.Ahead.From, p.Ahead.To)
				}
				if p.DuplicateBytes > 0 {
					fmt.Fprintf(&out, ", %d bytes again", p.DuplicateBytes)
				}
				out.WriteString("\n")
			}
			return out.String()
		})
	})
}

// TestTranscriptsNameEverything checks that every reason is an outcome of some
// transcript, and every invariant of the helper is named in one.
func TestTranscriptsNameEverything(t *testing.T) {
	var all strings.Builder
	for _, dir := range []string{"decide", "promotion"} {
		files, err := filepath.Glob("testdata/" + dir + "/*.txt")
		if err != nil || len(files) == 0 {
			t.Fatalf("no transcripts: %v", err)
		}
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(raw)
		}
	}
	text := all.String()
	for _, r := range allReasons {
		// An unreachable standby has no view to decide on.
		if r != ReasonNone && r != ReasonStandbyUnreachable && !strings.Contains(text, ": "+string(r)) {
			t.Errorf("no transcript ends in reason %q", r)
		}
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return r != '-' && (r < '0' || r > '9') && r != 'I' })
	for _, i := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 16, 17, 18} {
		if name := fmt.Sprintf("I-%d", i); !slices.Contains(words, name) {
			t.Errorf("no transcript names %s", name)
		}
	}
}
