package rig

import (
	"fmt"
	"path/filepath"
	"strconv"
)

// prepare writes down the processes of a node whose upstream, when it is a
// standby, is the other.
func (p *Pair) prepare(n, other *Node) error {
	addr, legs := p.addr, legs{pair: p, node: n.Name}
	standby := serverConninfo(legs.port(LegStandby, n.Name))
	helperArgs := append([]string{
		"--standby", standby, "--state-dir", p.stateDir(n), "--http", addr(n.Name + "-helper-http"),
	}, p.cfg.Flags...)
	helperURL := "http://" + addr(n.Name+"-helper-http")
	if p.cfg.Mode == Solo {
		n.listen = legs.addr(LegWALReceiver, n.Name+"-helper")
		helperArgs = append(helperArgs, p.cfg.RelayFlags...)
		if n == p.C {
			helperArgs = append(helperArgs, "--helper-url", other.Helper.URL())
		}
		n.Helper = newProcess(n.Name+"-solo", p.cfg.Binary, p.cfg.Dir, helperURL,
			append([]string{"solo", "--listen", addr(n.Name + "-helper"), "--upstream", serverConninfo(legs.port(LegUpstream, other.Name))}, helperArgs...)...)
		return legs.err
	}
	helperArgs = append([]string{"helper", "--upstream", relayConninfo(legs.port(LegRelay, other.Name+"-relay"))}, helperArgs...)
	if p.cfg.Mode == Inline {
		n.listen = legs.addr(LegWALReceiver, n.Name+"-helper")
		helperArgs = append(helperArgs, "--listen", addr(n.Name+"-helper"))
	} else {
		n.listen = legs.addr(LegWALReceiver, other.Name+"-relay")
	}
	n.Helper = newProcess(n.Name+"-helper", p.cfg.Binary, p.cfg.Dir, helperURL, helperArgs...)
	relayArgs := append([]string{
		"relay", "--listen", addr(n.Name + "-relay"), "--upstream", serverConninfo(legs.port(LegUpstream, n.Name)),
		"--http", addr(n.Name + "-relay-http"),
	}, p.cfg.RelayFlags...)
	if p.cfg.Cascade && n == p.B {
		relayArgs = append(relayArgs, "--helper-url", n.Helper.URL())
	}
	n.Relay = newProcess(n.Name+"-relay", p.cfg.Binary, p.cfg.Dir, "http://"+addr(n.Name+"-relay-http"), relayArgs...)
	return legs.err
}

// legs finds the ports that the processes beside a node connect to, and keeps the
// first error.
type legs struct {
	pair *Pair
	node string
	err  error
}

func (l *legs) port(leg Leg, to string) int {
	port, via := l.pair.ports[to], l.pair.cfg.Via
	if via == nil || l.err != nil {
		return port
	}
	port, l.err = via(leg, l.node, port)
	return port
}

func (l *legs) addr(leg Leg, to string) string { return "127.0.0.1:" + strconv.Itoa(l.port(leg, to)) }

func (p *Pair) addr(port string) string { return "127.0.0.1:" + strconv.Itoa(p.ports[port]) }

// serverConninfo is where a server is reached by a relay or a helper.
func serverConninfo(port int) string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres", port)
}

// relayConninfo is where a helper reaches a relay.
func relayConninfo(port int) string { return fmt.Sprintf("host=127.0.0.1 port=%d user=postgres", port) }

// RelayConninfo is where a node's helper reaches the other node's relay.
func (p *Pair) RelayConninfo(n *Node) string {
	other := p.A
	if n == p.A {
		other = p.B
	}
	return relayConninfo(p.ports[other.Name+"-relay"])
}

// Front returns the address at which a subscriber reaches a node's server through
// the relay in front of it. In mode solo that is in the process beside the other node.
func (p *Pair) Front(n *Node) string {
	switch {
	case p.cfg.Mode != Solo:
		return p.addr(n.Name + "-relay")
	case n == p.A:
		return p.addr("b-helper")
	}
	return p.addr("a-helper")
}

func (p *Pair) stateDir(n *Node) string { return filepath.Join(p.cfg.Dir, n.Name+"-state") }
