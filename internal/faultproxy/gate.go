package faultproxy

import "sync"

// gate decides, for one direction, which bytes pass.
type gate struct {
	mu      sync.Mutex
	changed *sync.Cond
	stalled bool
	opened  bool  // for good: the proxy is being closed
	left    int64 // bytes until the cut, or noLimit
	count   int64 // bytes that have passed
}

const noLimit = -1

func newGate() *gate {
	g := &gate{left: noLimit}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// pass waits while the gate is stalled. It returns how many of n bytes may pass,
// and whether the connections are to be cut behind them.
func (g *gate) pass(n int) (pass int, cut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.stalled && !g.opened {
		g.changed.Wait()
	}
	pass = n
	if g.left != noLimit && int64(n) >= g.left {
		pass, cut = int(g.left), true
		g.left = noLimit
	} else if g.left != noLimit {
		g.left -= int64(n)
	}
	g.count += int64(pass)
	return pass, cut
}

func (g *gate) stall() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stalled = true
}

func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stalled = false
	g.changed.Broadcast()
}

// open ends all waits, now and later.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = true
	g.changed.Broadcast()
}

func (g *gate) limit(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = max(n, noLimit)
}

func (g *gate) forwarded() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}
