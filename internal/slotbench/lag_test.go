package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// A slot is behind from the middle between the samples that show the subscriber not
// yet and already beyond it, until it has caught up with what the subscriber has
// confirmed now.
func TestLags(t *testing.T) {
	ms := time.Millisecond
	for name, tt := range map[string]struct {
		upstream, local []protocol.LSN // 100 ms apart
		want            string
	}{
		"never behind":          {[]protocol.LSN{5, 6, 7}, []protocol.LSN{5, 6, 7}, "0s/0 0s/0 0s/0"},
		"read after it moved":   {[]protocol.LSN{5, 6}, []protocol.LSN{6, 7}, "0s/0 0s/0"},
		"stands still":          {[]protocol.LSN{5, 6, 6, 8}, []protocol.LSN{5, 5, 5, 5}, "0s/0 50ms/1 150ms/1 250ms/3"},
		"follows with a delay":  {[]protocol.LSN{5, 6, 7, 8}, []protocol.LSN{5, 5, 6, 7}, "0s/0 50ms/1 50ms/1 50ms/1"},
		"catches up":            {[]protocol.LSN{5, 6, 7, 7}, []protocol.LSN{5, 5, 5, 7}, "0s/0 50ms/1 150ms/2 0s/0"},
		"behind from the start": {[]protocol.LSN{5, 5}, []protocol.LSN{4, 4}, "0s/1 100ms/1"},
		"falls back":            {[]protocol.LSN{5, 6, 7, 7}, []protocol.LSN{5, 6, 7, 5}, "0s/0 0s/0 0s/0 250ms/2"},
		"not there at first":    {[]protocol.LSN{5, 5, 5}, []protocol.LSN{0, 0, 5}, "0s/5 100ms/5 0s/0"},
	} {
		var samples []sample
		for i, upstream := range tt.upstream {
			samples = append(samples, sample{time.Duration(i) * 100 * ms, upstream, pairOf[protocol.LSN]{Worker: tt.local[i]}})
		}
		got := ""
		for _, l := range lags(samples, func(p pairOf[protocol.LSN]) protocol.LSN { return p.Worker }) {
			got += fmt.Sprintf(" %s/%d", l.age, uint64(l.bytes))
		}
		if got != " "+tt.want {
			t.Errorf("%s: lags are%s, want %s", name, got, tt.want)
		}
	}
}

func TestQuantiles(t *testing.T) {
	if got := quantilesOf(nil); got != (quantiles{}) {
		t.Errorf("of nothing: %+v", got)
	}
	var list []float64
	for i := 100; i > 0; i-- {
		list = append(list, float64(i))
	}
	if got, want := quantilesOf(list), (quantiles{N: 100, P50: 50, P90: 90, P99: 99, Max: 100}); got != want {
		t.Errorf("of 1 to 100: %+v, want %+v", got, want)
	}
	if got, want := quantilesOf([]float64{7}), (quantiles{N: 1, P50: 7, P90: 7, P99: 7, Max: 7}); got != want {
		t.Errorf("of one: %+v, want %+v", got, want)
	}
}

// A slot that was never seen ready counts as ready at the end, and is told of.
func TestBirths(t *testing.T) {
	now := time.Now()
	born := map[string]time.Time{"a": now, "b": now, "c": now}
	ready := map[string]time.Time{"a": now.Add(100 * time.Millisecond), "b": now.Add(-time.Millisecond)}
	got := birthsOf(born, ready, now.Add(time.Second))
	if want := (births{quantiles{N: 3, P50: 100, P90: 1000, P99: 1000, Max: 1000}, 1}); got != want {
		t.Errorf("births are %+v, want %+v", got, want)
	}
}

// The delay of a message is that of each confirmation it is the first to tell.
func TestConfirmations(t *testing.T) {
	now := time.Now()
	at := func(ms int) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
	var c confirmations
	c.note("a", 1, at(0)) // nobody listens yet
	c.waiting = map[string][]confirmation{}
	c.note("a", 5, at(10))
	c.note("a", 6, at(30))
	c.note("b", 9, at(40))
	says := func(a, b protocol.LSN) *protocol.SlotMessage {
		return &protocol.SlotMessage{Slots: []protocol.SlotState{{Name: "a", ConfirmedFlushLSN: a}, {Name: "b", ConfirmedFlushLSN: b}}}
	}
	c.heard(says(4, 8), at(45))
	c.heard(says(6, 8), at(50))
	c.heard(says(6, 9), at(60))
	c.heard(says(7, 9), at(70))
	if got, want := fmt.Sprint(c.delays()), "[40 20 20]"; got != want {
		t.Errorf("delays are %s, want %s", got, want)
	}
}
