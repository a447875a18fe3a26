package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
)

// until polls with the test's deadline.
func (p *testPair) until(what string, check func(context.Context) (bool, string)) {
	p.t.Helper()
	p.untilWithin(waitTime, what, check)
}

func (p *testPair) untilWithin(timeout time.Duration, what string, check func(context.Context) (bool, string)) {
	p.t.Helper()
	poll.Require(p.t, timeout, what, check)
}

// mixedTraffic writes on the primary until its WAL ends at end or later: small
// transactions, bulk inserts, COPY, DDL. It says how many rounds that took.
func (p *testPair) mixedTraffic(end protocol.LSN) string {
	p.t.Helper()
	clustertest.Run(p.t, p.A.Server, "pgbench", "--initialize", "--quiet", "--scale", "2", p.A.Server.Conninfo("postgres"))
	conn, err := p.A.Server.Connect(p.t.Context(), "postgres")
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(p.t.Context()))
	exec := func(sql string) {
		p.t.Helper()
		if _, err := conn.PgConn().Exec(p.t.Context(), sql).ReadAll(); err != nil {
			p.t.Fatal(err)
		}
	}
	exec("CREATE TABLE bulk (n bigint, pad text); CREATE TABLE copied (n bigint, pad text); " +
		"ALTER TABLE bulk ALTER pad SET STORAGE external; ALTER TABLE copied REPLICA IDENTITY FULL")
	round := 0
	for ; lsnOf(p.t, p.A, "SELECT pg_current_wal_lsn()::text") < end; round++ {
		clustertest.Run(p.t, p.A.Server, "pgbench", "--no-vacuum", "--client", "4", "--transactions", "100", "--protocol", "prepared",
			p.A.Server.Conninfo("postgres"))
		exec("INSERT INTO bulk SELECT g, repeat(md5(g::text), 1 + g % 60) FROM generate_series(1, 24000) g")
		_, err := conn.CopyFrom(p.t.Context(), pgx.Identifier{"copied"}, []string{"n", "pad"},
			pgx.CopyFromSlice(20000, func(i int) ([]any, error) { return []any{int64(i), strings.Repeat("copy ", i%80)}, nil }))
		if err != nil {
			p.t.Fatal(err)
		}
		exec(fmt.Sprintf("BEGIN; CREATE TABLE d%d (n int PRIMARY KEY, v text); INSERT INTO d%d SELECT g, 'ddl' FROM generate_series(1, 100) g; "+
			"ALTER TABLE d%d ADD w int DEFAULT 7; COMMIT; BEGIN; DELETE FROM copied WHERE n %% 3 = 0; ROLLBACK", round, round, round))
		if round%8 == 7 {
			exec("TRUNCATE bulk, copied")
		}
	}
	return fmt.Sprintf("%d rounds", round)
}

// moveSlots advances slots on the primary one after the other, as their
// subscribers would, until the function it returns is called; that says how
// often.
func (p *testPair) moveSlots(slots []string) (stop func() int64) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
	done := make(chan struct{})
	var moves atomic.Int64
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			if i%len(slots) == 0 {
				_ = p.A.Server.Exec(ctx, "postgres", "SELECT pg_log_standby_snapshot()") // so that restart_lsn moves
			}
			_, err := cluster.QueryValue[string](ctx, p.A.Server, "postgres", fmt.Sprintf(
				"SELECT end_lsn::text FROM pg_replication_slot_advance('%s', pg_current_wal_flush_lsn())", slots[i%len(slots)]))
			if err == nil {
				moves.Add(1)
			} else if ctx.Err() == nil {
				p.t.Errorf("advance: %v", err)
				return
			}
		}
	}()
	stop = func() int64 {
		cancel()
		<-done
		return moves.Load()
	}
	p.t.Cleanup(func() { stop() })
	return stop
}

// stripped is how many frames the standby's helper has taken out of streams.
func (p *testPair) stripped() uint64 {
	p.t.Helper()
	raw, err := p.B.Helper.Document(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	var doc struct {
		Relay struct {
			Sessions []struct{ Stripped uint64 }
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		p.t.Fatal(err)
	}
	var n uint64
	for _, s := range doc.Relay.Sessions {
		n += s.Stripped
	}
	return n
}
