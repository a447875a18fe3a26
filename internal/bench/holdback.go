package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
)

// heldCommits is how many commits a round of holdBack measures.
const heldCommits = 400

// holdBack measures what a relay that holds logical streams back adds for a
// subscriber: the time from when the standby says that it has flushed a commit, or
// a subscriber without a relay has it, whichever is later, to when the subscriber
// behind the relay has it.
func (b *bench) holdBack(ctx context.Context) (err error) {
	bin, _, err := binaries(ctx, b.major)
	if err != nil {
		return err
	}
	primary, err := cluster.Start(ctx, cluster.Config{Bin: bin, Settings: map[string]string{"log_replication_commands": "off"}})
	if err != nil {
		return err
	}
	defer primary.Close()
	err = primary.Exec(ctx, "postgres", "CREATE TABLE note (n bigint, t text)", "CREATE PUBLICATION p FOR TABLE note",
		"SELECT pg_create_logical_replication_slot('direct', 'pgoutput')", "SELECT pg_create_logical_replication_slot('relayed', 'pgoutput')")
	if err != nil {
		return err
	}
	c := &chain{name: relayed}
	defer c.close()
	if err := c.add(ctx, exec.CommandContext(ctx, b.binary), func(addr string) []string {
		return []string{"relay", "--listen", addr, "--upstream", primary.Conninfo("postgres"), "--log-level", "error",
			"--refuse-tls", "--hold-back", "standby"}
	}); err != nil {
		return err
	}
	flushed := &arrivals{at: map[protocol.LSN]time.Time{}}
	tap, err := listenTap(fmt.Sprintf("127.0.0.1:%d", c.port), flushed)
	if err != nil {
		return err
	}
	defer tap.close()
	standby, err := primary.Standby(ctx, cluster.StandbyConfig{Name: "standby", SlotName: "standby", PrimaryConninfo: fmt.Sprintf(
		"host=127.0.0.1 port=%d user=%s application_name=standby sslmode=disable gssencmode=disable", tap.port(), cluster.Superuser)})
	if err != nil {
		return err
	}
	defer standby.Close()
	return b.measureHoldBack(ctx, primary, c.port, flushed)
}

// measureHoldBack commits and compares, round by round.
func (b *bench) measureHoldBack(ctx context.Context, primary *cluster.Server, port int, flushed *arrivals) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	subscribers := map[string]*arrivals{}
	for _, by := range []struct {
		name, slot string
		port       int
	}{{direct, "direct", primary.Port()}, {relayed, "relayed", port}} {
		s := &arrivals{at: map[protocol.LSN]time.Time{}}
		subscribers[by.name] = s
		conn, err := startSubscriber(ctx, fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=postgres replication=database sslmode=disable",
			by.port, cluster.Superuser), by.slot)
		if err != nil {
			return err
		}
		wg.Go(func() { subscribe(ctx, conn, s) })
	}
	rows := map[int]*row{}
	for _, p := range []int{50, 99} {
		rows[p] = &row{What: fmt.Sprintf("hold-back, ms a subscriber waits above the standby's flush, p%d of %d commits", p, heldCommits),
			Medians: map[string]float64{}, Samples: map[string][]float64{}}
	}
	for range b.rounds {
		before := subscribers[relayed].count()
		for range heldCommits {
			if err := primary.Exec(ctx, "postgres", "INSERT INTO note VALUES (1, 'a small transaction')"); err != nil {
				return err
			}
		}
		err := poll.Until(ctx, 30*time.Second, "all commits at the subscribers", func(context.Context) (bool, string) {
			n := subscribers[relayed].count() - before
			return n >= heldCommits, fmt.Sprint(n)
		})
		if err != nil {
			return err
		}
		above, wait := subscribers[relayed].above(subscribers[direct], flushed, before)
		for p, r := range rows {
			r.Samples[relayed] = append(r.Samples[relayed], percentile(above, p))
			r.Samples[direct] = append(r.Samples[direct], percentile(wait, p))
		}
	}
	for _, p := range []int{50, 99} {
		// Medians of: what the relay adds; and what the standby's flush takes, from when
		// a subscriber without a relay has the commit.
		r := rows[p]
		r.Medians[relayed], r.Medians[direct] = median(r.Samples[relayed]), median(r.Samples[direct])
		r.Value = r.Medians[relayed]
		r.judge(atMost, 1, "%.2f ms")
		b.report.add(*r)
	}
	return nil
}

// percentile returns it in milliseconds.
func percentile(list []time.Duration, p int) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return float64(list[(len(list)-1)*p/100]) / float64(time.Millisecond)
}

// arrivals are positions, and when each came, in their order.
type arrivals struct {
	mu    sync.Mutex
	order []protocol.LSN
	at    map[protocol.LSN]time.Time
}

func (a *arrivals) note(lsn protocol.LSN, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.at[lsn]; !ok {
		a.order, a.at[lsn] = append(a.order, lsn), at
	}
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.order)
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

// above returns for each commit from the n-th on how much later it came than at
// the other subscriber and the standby, and how much later the standby had it than
// the other subscriber.
func (a *arrivals) above(other, flushed *arrivals, n int) (above, wait []time.Duration) {
	a.mu.Lock()
	list := slices.Clone(a.order[n:])
	a.mu.Unlock()
	for _, lsn := range list {
		came, _ := a.first(lsn)
		there, ok := other.first(lsn)
		flush, flushOK := flushed.first(lsn)
		if !ok || !flushOK {
			continue
		}
		later := there
		if flush.After(there) {
			later = flush
			wait = append(wait, flush.Sub(there))
		}
		above = append(above, came.Sub(later))
	}
	return above, wait
}

// tap stands between a standby and a relay, and notes what the standby says that
// it has flushed.
type tap struct {
	listener net.Listener
	to       string
	flushed  *arrivals
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func listenTap(to string, flushed *arrivals) (*tap, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &tap{listener: l, to: to, flushed: flushed}
	t.wg.Go(t.accept)
	return t, nil
}

func (t *tap) port() int { return t.listener.Addr().(*net.TCPAddr).Port }

func (t *tap) close() {
	_ = t.listener.Close()
	t.mu.Lock()
	for _, c := range t.conns {
		_ = c.Close()
	}
	t.mu.Unlock()
	t.wg.Wait()
}
