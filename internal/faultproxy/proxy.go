package faultproxy

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

// Direction tells the two halves of a connection apart.
type Direction int

// The two directions.
const (
	Up   Direction = iota // to the target
	Down                  // from the target
)

// Proxy accepts connections and joins each to one of its own to the target. It
// owns all of them: Close closes them and waits for their goroutines.
type Proxy struct {
	listener net.Listener
	wg       sync.WaitGroup
	gates    [2]*gate // by Direction

	mu        sync.Mutex // guards all below
	target    string
	blackhole bool
	closed    bool
	conns     map[net.Conn]struct{} // both ends of all connections
	accepted  int
}

// New starts a proxy on a free port of 127.0.0.1. The target is dialed for each
// connection, so it need not be there yet.
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start fault proxy: %w", err)
	}
	p := &Proxy{
		listener: l,
		target:   target,
		gates:    [2]*gate{newGate(), newGate()},
		conns:    map[net.Conn]struct{}{},
	}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr returns the address to connect to, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Port returns the port of Addr.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// SetTarget sends connections to come to another address, as a moved virtual IP
// address does. It leaves those that there are alone; Cut ends them.
func (p *Proxy) SetTarget(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// Blackhole on makes the proxy accept connections and never answer: it does not
// dial the target, and reads nothing. Connections that there are go on. A
// connection accepted while it was on stays unanswered until Cut.
func (p *Proxy) Blackhole(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blackhole = on
}

// Stall stops the bytes of one direction, on all connections, also those to come,
// until Resume. Connections stay open, and what the operating system has accepted
// still arrives at the proxy, but not behind it.
func (p *Proxy) Stall(d Direction) { p.gates[d].stall() }

// Resume ends Stall.
func (p *Proxy) Resume(d Direction) { p.gates[d].resume() }

// CutAfter lets n more bytes through in one direction, counted over all
// connections, and then does what Cut does. It happens once; n = 0 cuts before the
// next byte. A negative n takes the order back.
func (p *Proxy) CutAfter(d Direction, n int64) { p.gates[d].limit(n) }

// Bytes returns how many bytes have been forwarded in one direction.
func (p *Proxy) Bytes(d Direction) int64 { return p.gates[d].forwarded() }

// Accepted returns how many connections have been accepted.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Cut closes all connections, with a reset where bytes are under way. New ones are
// accepted as before.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // what is still in the send buffer is lost, as on a cut cable
		}
		c.Close()
		delete(p.conns, c)
	}
}

// Close stops accepting, cuts all connections and returns when all goroutines have
// ended.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.Cut()
	for _, g := range p.gates {
		g.open()
	}
	p.wg.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close fault proxy: %w", err)
	}
	return nil
}

// register makes a connection one of those that Cut closes. A closed proxy takes
// no more.
func (p *Proxy) register(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) forget(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}
