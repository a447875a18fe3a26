package faultproxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// dialTimeout bounds the wait for a target that does not answer.
const dialTimeout = 10 * time.Second

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || !p.register(c) {
			continue // a connection that was reset before it was accepted
		}
		p.mu.Lock()
		p.accepted++
		target, blackhole := p.target, p.blackhole
		p.mu.Unlock()
		if blackhole {
			continue // it stays open and registered, and nobody reads it
		}
		p.wg.Go(func() { p.serve(c, target) })
	}
}

// serve joins a connection to one of its own to the target until both directions
// have ended.
func (p *Proxy) serve(down net.Conn, target string) {
	defer p.forget(down)
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	var dialer net.Dialer
	up, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil || !p.register(up) {
		return // the other side sees its connection closed, as it does for a dead target
	}
	defer p.forget(up)
	var wg sync.WaitGroup
	wg.Go(func() { p.pump(up, down, p.gates[Up]) })
	wg.Go(func() { p.pump(down, up, p.gates[Down]) })
	wg.Wait()
}

// pump forwards one direction. At its end it hands the end on, and leaves the
// other direction alone; on an error it closes both.
func (p *Proxy) pump(to, from net.Conn, g *gate) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		for b := buf[:n]; len(b) > 0; {
			pass, cut := g.pass(len(b))
			if _, err := to.Write(b[:pass]); err != nil {
				from.Close()
				to.Close()
				return
			}
			if cut {
				p.Cut()
				return
			}
			b = b[pass:]
		}
		if err == nil {
			continue
		}
		if tcp, ok := to.(*net.TCPConn); !ok || tcp.CloseWrite() != nil {
			from.Close()
			to.Close()
		}
		return
	}
}
