package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/pgbin"
	"github.com/slotferry/slotferry/internal/poll"
)

// Mode is how a helper gets at slot state.
type Mode string

// The modes.
const (
	Inline  Mode = "inline"  // the walreceiver streams through the helper
	Sidecar Mode = "sidecar" // the walreceiver streams from the relay, the helper has a connection of its own
	Solo    Mode = "solo"    // relay and helper are one process
)

// Config says what to put together.
type Config struct {
	Bin      pgbin.Installation
	Binary   string // of slotferry, from Build
	Mode     Mode
	Dir      string            // for logs and state directories; must exist
	Servers  string            // for the servers' directories; empty: temporary ones, which Close removes
	Settings map[string]string // of both servers, added to the harness's
	Flags    []string          // of every helper, added to the rig's

	// Cascade hangs a third node, C, behind B: C streams from B by the same mode.
	Cascade bool

	RelayFlags []string // of every relay, and in mode solo of every helper, added to the rig's

	// Via returns the port to connect to instead of port, for a connection that a
	// process beside the named node opens: that of a proxy. nil: port itself.
	Via func(leg Leg, node string, port int) (int, error)
}

// Leg is one of the connections of a pair, by who opens it.
type Leg string

// The legs.
const (
	LegWALReceiver Leg = "walreceiver" // a standby's walreceiver, to the helper or the relay
	LegRelay       Leg = "relay"       // a helper, to the relay in front of its upstream
	LegUpstream    Leg = "upstream"    // a relay, to its server, for sessions and for reading slots
	LegStandby     Leg = "standby"     // a helper, to its standby
)

// Node is a server with what stands around it.
type Node struct {
	Name   string
	Server *cluster.Server
	Relay  *Process // in front of the server; nil in solo mode
	Helper *Process // beside the server, for when it is a standby

	listen string // where a walreceiver of this node connects
}

// Pair is two nodes, either of which can be the primary.
type Pair struct {
	cfg  Config
	A, B *Node
	C    *Node // the end of a cascade; nil: there is none

	ports map[string]int
	free  []func()
}

// NewPair starts a primary on A and a standby of it on B. The helper of A is
// started too: it has nothing to do until A is a standby.
func NewPair(ctx context.Context, cfg Config) (p *Pair, err error) {
	p = &Pair{cfg: cfg, A: &Node{Name: "a"}, B: &Node{Name: "b"}, ports: map[string]int{}}
	half := p // what is to be closed when nil is returned
	defer func() {
		if err != nil {
			err = errors.Join(err, half.Close())
		}
	}()
	if cfg.Cascade {
		p.C = &Node{Name: "c"}
	}
	for _, n := range p.nodes() {
		for _, what := range []string{"", "-relay", "-relay-http", "-helper", "-helper-http"} {
			port, release, err := cluster.FreePort()
			if err != nil {
				return nil, err
			}
			p.free = append(p.free, release)
			p.ports[n.Name+what] = port
		}
	}
	p.A.Server, err = cluster.Start(ctx, cluster.Config{
		Bin: cfg.Bin, Name: "a", Dir: cfg.serverDir("a"), Port: p.ports["a"], Settings: cfg.Settings,
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.prepare(p.A, p.B), p.prepare(p.B, p.A)); err != nil {
		return nil, err
	}
	if err := p.A.start(ctx); err != nil {
		return nil, err
	}
	if err := p.B.start(ctx); err != nil {
		return nil, err
	}
	p.B.Server, err = p.A.Server.Standby(ctx, cluster.StandbyConfig{
		Name: "b", SlotName: "b", Dir: cfg.serverDir("b"), Port: p.ports["b"], PrimaryConninfo: p.conninfo(p.B),
	})
	if err != nil || p.C == nil {
		return p, err
	}
	if err := errors.Join(p.prepare(p.C, p.B), p.C.start(ctx)); err != nil {
		return nil, err
	}
	p.C.Server, err = p.B.Server.Standby(ctx, cluster.StandbyConfig{
		Name: "c", SlotName: "c", Dir: cfg.serverDir("c"), Port: p.ports["c"], PrimaryConninfo: p.conninfo(p.C),
	})
	return p, err
}

// nodes are all nodes, upstream first.
func (p *Pair) nodes() []*Node {
	if p.C == nil {
		return []*Node{p.A, p.B}
	}
	return []*Node{p.A, p.B, p.C}
}

// serverDir is the directory of a server, empty for a temporary one.
func (cfg *Config) serverDir(name string) string {
	if cfg.Servers == "" {
		return ""
	}
	return filepath.Join(cfg.Servers, name)
}

func (n *Node) start(ctx context.Context) error {
	if n.Relay != nil {
		if err := n.Relay.Start(ctx); err != nil {
			return err
		}
	}
	return n.Helper.Start(ctx)
}

// conninfo is primary_conninfo of a node as a standby.
func (p *Pair) conninfo(n *Node) string {
	port := n.listen[len("127.0.0.1:"):]
	return fmt.Sprintf("host=127.0.0.1 port=%s user=postgres application_name=%s sslmode=disable gssencmode=disable", port, n.Name)
}

// Switchover stops the primary in order, promotes the standby, and starts the old
// primary as its standby.
func (p *Pair) Switchover(ctx context.Context, from, to *Node) error {
	if err := from.Server.Stop(ctx, cluster.Fast); err != nil {
		return err
	}
	return p.Exchange(ctx, from, to)
}

// Exchange is the rest of a switchover: from has been stopped in order, and
// becomes the standby of to.
func (p *Pair) Exchange(ctx context.Context, from, to *Node) error {
	if err := to.Server.Promote(ctx); err != nil {
		return err
	}
	if err := to.Server.CreatePhysicalSlot(ctx, from.Name); err != nil {
		return err
	}
	if err := from.Server.SetStandby(p.conninfo(from), from.Name); err != nil {
		return err
	}
	if err := from.Server.Start(ctx); err != nil {
		return err
	}
	// What the new primary held here as a standby would hold vacuum back for ever.
	return from.Server.Exec(ctx, "postgres", fmt.Sprintf("SELECT pg_drop_replication_slot('%s')", to.Name))
}

// Remake makes a node whose server was killed a standby of the other, from a new
// base backup, in the place of its old directory.
func (p *Pair) Remake(ctx context.Context, n, primary *Node) error {
	if err := n.Server.Close(); err != nil {
		return err
	}
	if dir := p.cfg.serverDir(n.Name); dir != "" {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remake %s: %w", n.Name, err)
		}
	}
	var err error
	n.Server, err = primary.Server.Standby(ctx, cluster.StandbyConfig{
		Name: n.Name, SlotName: n.Name, Dir: p.cfg.serverDir(n.Name), Port: p.ports[n.Name], PrimaryConninfo: p.conninfo(n),
	})
	return err
}

// Status reads the status of a node's helper.
func (n *Node) Status(ctx context.Context) (*decoder.Status, error) {
	raw, err := n.Helper.Document(ctx)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Helper *decoder.Status `json:"helper"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("read status of %s: %w", n.Helper.name, err)
	}
	if doc.Helper == nil {
		return nil, fmt.Errorf("read status of %s: there is no helper in it", n.Helper.name)
	}
	return doc.Helper, nil
}

// WaitSlot waits until a node's helper, in a look it takes from now on, says this
// of a slot.
func (n *Node) WaitSlot(ctx context.Context, timeout time.Duration, slot string, state decoder.State, reason decoder.Reason) (decoder.SlotStatusJSON, error) {
	var found decoder.SlotStatusJSON
	asked := time.Now()
	err := poll.Until(ctx, timeout, fmt.Sprintf("slot %s on %s to be %s %s", slot, n.Name, state, reason),
		func(ctx context.Context) (bool, string) {
			st, err := n.Status(ctx)
			if err != nil {
				return false, err.Error()
			}
			if st.Time.Before(asked) {
				return false, "not looked at since"
			}
			for _, s := range st.Slots {
				if s.Name == slot {
					found = s
					return s.State == state && s.Reason == reason, fmt.Sprintf("%+v, anchor %+v", s, st.Anchor)
				}
			}
			return false, fmt.Sprintf("not there; %s %s, anchor %+v", st.Reason, st.Detail, st.Anchor)
		})
	return found, err
}

// WaitReady waits until a slot is ready.
func (n *Node) WaitReady(ctx context.Context, timeout time.Duration, slot string) error {
	_, err := n.WaitSlot(ctx, timeout, slot, decoder.StateReady, decoder.ReasonNone)
	return err
}

// Close ends everything. It reports what did not end as it should.
func (p *Pair) Close() error {
	var errs []error
	nodes := p.nodes()
	for _, n := range nodes {
		for _, proc := range []*Process{n.Helper, n.Relay} {
			if proc != nil && proc.Running() {
				errs = append(errs, proc.Stop())
			}
		}
	}
	slices.Reverse(nodes)
	for _, n := range nodes {
		if n.Server != nil {
			errs = append(errs, n.Server.Close())
		}
	}
	for _, release := range p.free {
		release()
	}
	return errors.Join(errs...)
}

// Logs returns the logs of all processes, for a test that failed.
func (p *Pair) Logs() string {
	out := ""
	for _, n := range p.nodes() {
		for _, proc := range []*Process{n.Helper, n.Relay} {
			if proc != nil {
				out += "---- " + proc.name + "\n" + proc.Log()
			}
		}
	}
	return out
}
