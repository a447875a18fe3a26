package main

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/protocol"
)

// heldCommits is how many commits a round of holdBack measures.
const heldCommits = 1000

// The subscribers of holdBack, by their slots.
const (
	slotDirect = "direct" // connects to the primary
	slotExempt = "exempt" // by the relay, which does not hold it back
	slotHeld   = "held"   // by the relay, which does
)

// holdBack measures what a relay that holds logical streams back adds for a
// subscriber, commit by commit: from when all that the relay waits for is on its
// way to it, the commit itself from the walsender and the word of the standby that
// it has flushed it, to when the subscriber has the commit. What servers and kernel
// take before that is in none of the figures. The same of a stream that passes
// through the same relay and is not held back tells what a proxy takes.
//
// It uses all cores: on one, the relay would be measured while it waits for
// servers that have something else to do. Commits come one by one, so that none
// waits for the next one's work.
func (b *bench) holdBack(ctx context.Context) (err error) {
	restore, err := wholeMachine()
	if err != nil {
		return err
	}
	defer restore()
	bin, _, err := binaries(ctx, b.major)
	if err != nil {
		return err
	}
	primary, err := cluster.Start(ctx, cluster.Config{Bin: bin, Settings: map[string]string{
		"autovacuum": "off", "log_replication_commands": "off", "checkpoint_timeout": "1h"}})
	if err != nil {
		return err
	}
	defer primary.Close()
	err = primary.Exec(ctx, "postgres", "CREATE TABLE note (n bigint, t text)", "CREATE PUBLICATION p FOR TABLE note")
	if err != nil {
		return err
	}
	m := &holdMeasure{b: b, primary: primary, flushed: newArrivals(), sent: map[string]*arrivals{}, got: map[string]*arrivals{}}
	for _, slot := range []string{slotDirect, slotExempt, slotHeld} {
		if err := primary.Exec(ctx, "postgres", fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput')", slot)); err != nil {
			return err
		}
		m.sent[slot], m.got[slot] = newArrivals(), newArrivals()
	}
	servers, err := listenTap(primary.Addr(), &tap{sent: m.sent})
	if err != nil {
		return err
	}
	defer servers.close()
	c := &chain{name: relayed}
	defer c.close()
	if err := c.add(ctx, exec.CommandContext(ctx, b.binary), func(addr string) []string {
		return []string{"relay", "--listen", addr, "--upstream", fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=postgres sslmode=disable",
			servers.port(), cluster.Superuser), "--log-level", "error", "--refuse-tls", "--hold-back", "standby", "--hold-back-exempt", slotExempt}
	}); err != nil {
		return err
	}
	m.relay = c.port
	standbys, err := listenTap(fmt.Sprintf("127.0.0.1:%d", c.port), &tap{flushed: m.flushed})
	if err != nil {
		return err
	}
	defer standbys.close()
	standby, err := primary.Standby(ctx, cluster.StandbyConfig{Name: "standby", SlotName: "standby", PrimaryConninfo: fmt.Sprintf(
		"host=127.0.0.1 port=%d user=%s application_name=standby sslmode=disable gssencmode=disable", standbys.port(), cluster.Superuser)})
	if err != nil {
		return err
	}
	defer standby.Close()
	return m.run(ctx)
}

// holdMeasure is a primary whose relay is listened to on all sides.
type holdMeasure struct {
	b       *bench
	primary *cluster.Server
	relay   int // its port

	flushed *arrivals            // what the standby says, when it goes to the relay
	sent    map[string]*arrivals // by slot: commits, when they go to the relay
	got     map[string]*arrivals // by slot: commits, when the subscriber has them
}

// run commits and compares, round by round.
func (m *holdMeasure) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for slot, got := range m.got {
		port := m.relay
		if slot == slotDirect {
			port = m.primary.Port()
		}
		conn, err := startSubscriber(ctx, fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=postgres replication=database sslmode=disable",
			port, cluster.Superuser), slot)
		if err != nil {
			return err
		}
		wg.Go(func() { subscribe(ctx, conn, got) })
	}
	held := holdRows(relayed, fmt.Sprintf("hold-back, %d cores: ms from the standby's flush to the subscriber", cpus()))
	passed := holdRows(relayed, "not held back: ms from the walsender to the subscriber")
	flush := holdRows(direct, "the standby's flush: ms after a subscriber of the primary has it")
	for range m.b.rounds {
		list, err := m.commit(ctx)
		if err != nil {
			return err
		}
		held.sample(m.got[slotHeld].later(list, m.flushed, m.sent[slotHeld]))
		passed.sample(m.got[slotExempt].later(list, m.sent[slotExempt]))
		flush.sample(m.flushed.later(list, m.got[slotDirect]))
	}
	for i := range held {
		held[i].judge(atMost, 1, "%.2f ms")
	}
	for _, rows := range []percentiles{held, passed, flush} {
		for _, r := range rows {
			m.b.report.add(r.row)
		}
	}
	return nil
}

// commit commits one small transaction after the other, each when all have the one
// before, and returns the positions of their ends.
func (m *holdMeasure) commit(ctx context.Context) ([]protocol.LSN, error) {
	conn, err := m.primary.Connect(ctx, "postgres")
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	before := m.got[slotHeld].count()
	for i := range heldCommits {
		if _, err := conn.Exec(ctx, "INSERT INTO note VALUES (1, 'a small transaction')"); err != nil {
			return nil, fmt.Errorf("commit: %w", err)
		}
		for slot, got := range m.got {
			if err := got.wait(ctx, before+i+1); err != nil {
				return nil, fmt.Errorf("slot %s: %w", slot, err)
			}
		}
	}
	return m.got[slotHeld].from(before), nil
}

// percentiles are rows of the same delays, one for each percentile.
type percentiles []percentileRow

type percentileRow struct {
	row
	name string // of the contestant
	p    int
}

func holdRows(name, what string) (rows percentiles) {
	for _, p := range []int{50, 99} {
		rows = append(rows, percentileRow{name: name, p: p, row: row{What: fmt.Sprintf("%s, p%d of %d commits", what, p, heldCommits),
			Medians: map[string]float64{}, Samples: map[string][]float64{}}})
	}
	return rows
}

// sample adds a round.
func (rows percentiles) sample(list []time.Duration) {
	for i := range rows {
		r := &rows[i]
		r.Samples[r.name] = append(r.Samples[r.name], percentile(list, r.p))
		r.Value = median(r.Samples[r.name])
		r.Medians[r.name] = r.Value
	}
}
