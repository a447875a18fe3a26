package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// arrivals are positions, and when each came, in their order.
type arrivals struct {
	mu    sync.Mutex
	order []protocol.LSN
	at    map[protocol.LSN]time.Time

	news chan struct{} // holds one; for one waiter
}

func newArrivals() *arrivals {
	return &arrivals{at: map[protocol.LSN]time.Time{}, news: make(chan struct{}, 1)}
}

func (a *arrivals) note(lsn protocol.LSN, at time.Time) {
	a.mu.Lock()
	if _, ok := a.at[lsn]; !ok {
		a.order, a.at[lsn] = append(a.order, lsn), at
	}
	a.mu.Unlock()
	select {
	case a.news <- struct{}{}:
	default:
	}
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.order)
}

// wait waits until there are n. It does not look again and again: that would keep
// a core busy that something else is measured on.
func (a *arrivals) wait(ctx context.Context, n int) error {
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for {
		got := a.count()
		if got >= n {
			return nil
		}
		select {
		case <-a.news:
		case <-limit.C:
			return fmt.Errorf("wait for commit %d: there are %d", n, got)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// from returns the positions from the n-th on.
func (a *arrivals) from(n int) []protocol.LSN {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.order[n:])
}

// first is when a position at or past lsn came first.
func (a *arrivals) first(lsn protocol.LSN) (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, _ := slices.BinarySearch(a.order, lsn)
	if i == len(a.order) {
		return time.Time{}, false
	}
	return a.at[a.order[i]], true
}

// later returns, for each commit of the list that all have, how much later a has
// it than the last of the others.
func (a *arrivals) later(list []protocol.LSN, others ...*arrivals) []time.Duration {
	var out []time.Duration
commits:
	for _, lsn := range list {
		came, ok := a.first(lsn)
		if !ok {
			continue
		}
		var last time.Time
		for _, other := range others {
			at, ok := other.first(lsn)
			if !ok {
				continue commits
			}
			if at.After(last) {
				last = at
			}
		}
		out = append(out, came.Sub(last))
	}
	return out
}

// percentile returns it in milliseconds.
func percentile(list []time.Duration, p int) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return float64(list[(len(list)-1)*p/100]) / float64(time.Millisecond)
}
