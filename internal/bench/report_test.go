package main

import (
	"slices"
	"strings"
	"testing"
)

// figures are three rounds of three contestants, in which the machine got slower.
func figures() map[string][]sample {
	all := map[string][]sample{}
	for name, list := range map[string][]float64{
		direct: {10, 20, 40}, relayed: {30, 60, 110}, twoHops: {50, 100, 200}, stock: {30, 40, 140},
	} {
		for _, v := range list {
			all[name] = append(all[name], sample{outcome: outcome{P50: v}})
		}
	}
	return all
}

// Ratios are made within a round: the machine's own drift is in neither.
func TestRatiosArePaired(t *testing.T) {
	var rep report
	rep.ratio("ratio", figures(), p50, stock, atMost, 0.9)
	rep.added("added", figures(), p50, stock, 1.0)
	rep.value("value", figures(), p50, 60)
	rep.cost("cost", figures(), p50, twoHops, relayed, 50)
	for i, want := range []struct {
		value, twoHops float64
		met            bool
	}{
		{1, 5.0 / 3, false}, // of 1, 1.5, 0.79 and of 1.67, 2.5, 1.43
		{1, 2, true},        // of 20/20, 40/20, 70/100 and of 40/20, 80/20, 160/100
		{60, 100, true},
		{200.0 / 3, 0, false}, // of 66.7, 66.7, 81.8
	} {
		r := rep.Rows[i]
		if !near(r.Value, want.value) || !near(r.TwoHops, want.twoHops) || r.Met != want.met {
			t.Errorf("%s: %v, two hops %v, met %v, want %+v", r.What, r.Value, r.TwoHops, r.Met, want)
		}
	}
	var text strings.Builder
	rep.print(&text)
	for _, want := range []string{"<= 0.90x 1.00 missed 1.67", "<= 60.0 60.00 met 100.00"} {
		if !strings.Contains(strings.Join(strings.Fields(text.String()), " "), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

func TestTurn(t *testing.T) {
	names := []string{"a", "b", "c"}
	if got := turn(names, 1); !slices.Equal(got, []string{"c", "b", "a"}) {
		t.Errorf("the second round goes %v", got)
	}
	if got := turn(names, 2); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("the third round goes %v", got)
	}
}
