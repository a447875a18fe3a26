package decoder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
)

const (
	digestSlots   = 16
	digestWriters = 5 // of each database
)

var digestDatabases = []string{"postgres", "q'uote Ünï"}

// Under overlapping transactions and DDL in two databases, slots are born
// upstream at random moments and consumed at random. After the promotion each
// slot of the standby gives, from U on, what the upstream's slot gives, digest for
// digest. This is what I-0 to I-5 are for.
func TestDecodedStreamIsTheUpstreams(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		p := newPair(t, major)
		prepareDigestDatabases(t, p.primary)
		p.waitAnchor(t)

		load := startLoad(t, p.primary, seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		for i := range digestSlots {
			load.waitTransactions(t, 10+rng.IntN(40))
			s := digestSlot(i)
			clustertest.Exec(t, p.primary, s.database,
				fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', '%s')", s.name, s.plugin))
			consume(t, p.primary, digestSlot(rng.IntN(i+1)), 1+rng.IntN(200))
		}
		load.waitTransactions(t, 100)
		load.stop()
		for i := range digestSlots {
			p.slot(t, digestSlot(i).name, StateReady, ReasonNone)
		}

		want := map[string]map[string]string{}
		from := map[string]protocol.LSN{}
		for i := range digestSlots {
			s := digestSlot(i)
			from[s.name] = confirmed(t, p.primary, s.name)
			want[s.name] = digests(t, p.primary, s, 0)
		}
		p.waitKnown(t, from)
		if err := p.primary.WaitForStandby(t.Context(), p.standby); err != nil {
			t.Fatal(err)
		}
		if err := p.primary.Kill9(); err != nil {
			t.Fatal(err)
		}
		p.promote(t)

		transactions := 0
		for i := range digestSlots {
			s := digestSlot(i)
			if l := confirmed(t, p.standby, s.name); l > from[s.name] {
				t.Errorf("%s: at %v, past the subscriber's %v", s.name, l, from[s.name])
			}
			got := digests(t, p.standby, s, from[s.name])
			transactions += len(want[s.name])
			for xid, digest := range want[s.name] {
				if got[xid] != digest {
					t.Errorf("%s: transaction %s is %q, upstream %q", s.name, xid, got[xid], digest)
				}
			}
			if len(got) != len(want[s.name]) {
				t.Errorf("%s: %d transactions, upstream %d", s.name, len(got), len(want[s.name]))
			}
		}
		t.Logf("%d slots, %d transactions compared", digestSlots, transactions)
		if transactions < digestSlots {
			t.Error("too few transactions to prove anything")
		}
	})
}

type slotSpec struct{ name, database, plugin string }

func digestSlot(i int) slotSpec {
	plugin := "test_decoding"
	if i%3 == 0 {
		plugin = "pgoutput"
	}
	return slotSpec{fmt.Sprintf("s%d", i), digestDatabases[i%len(digestDatabases)], plugin}
}

func prepareDigestDatabases(t *testing.T, s *cluster.Server) {
	t.Helper()
	for _, db := range digestDatabases {
		if db != "postgres" {
			clustertest.Exec(t, s, "postgres", "CREATE DATABASE "+pgx.Identifier{db}.Sanitize())
			clustertest.Exec(t, s, db, "CREATE PUBLICATION p FOR ALL TABLES")
		}
		for n := range digestWriters {
			clustertest.Exec(t, s, db, fmt.Sprintf("CREATE TABLE w%d (i bigserial PRIMARY KEY, v text)", n))
		}
	}
}

// confirmed is a slot's confirmed_flush_lsn.
func confirmed(t *testing.T, s *cluster.Server, slot string) protocol.LSN {
	t.Helper()
	text := clustertest.Value[string](t, s, "postgres",
		"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", slot)
	lsn, err := protocol.ParseLSN(text)
	if err != nil {
		t.Fatal(err)
	}
	return lsn
}

func changesQuery(s slotSpec, function, limit string) string {
	options := ""
	if s.plugin == "pgoutput" {
		options = ", 'proto_version', '1', 'publication_names', 'p'"
	}
	return fmt.Sprintf("pg_logical_slot_%s_binary_changes('%s', NULL, %s%s)", function, s.name, limit, options)
}

// consume lets the upstream's slot confirm some of what is there. Under much DDL a
// primary may fail to decode with "unexpected duplicate for tablespace"
// (RelidByRelfilenumber, relfilenumbermap.c), an error of its own that passes:
// then this slot confirms nothing this time.
func consume(t *testing.T, server *cluster.Server, s slotSpec, n int) {
	t.Helper()
	err := server.Exec(t.Context(), s.database, fmt.Sprintf("SELECT count(*) FROM %s", changesQuery(s, "get", fmt.Sprint(n))))
	var pgErr *pgconn.PgError
	if err != nil && !(errors.As(err, &pgErr) && pgErr.Code == "XX000" && strings.Contains(pgErr.Message, "unexpected duplicate")) {
		t.Fatal(err)
	}
}

// digests gives a digest of every transaction that a slot would send and that
// commits after a position. pgoutput's Relation and Type messages are left out:
// they are sent once a session, so where they stand depends on where it began.
func digests(t *testing.T, server *cluster.Server, s slotSpec, after protocol.LSN) map[string]string {
	t.Helper()
	conn, err := server.Connect(t.Context(), s.database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	rows, err := conn.Query(t.Context(), "SELECT lsn::text, xid::text, data FROM "+changesQuery(s, "peek", "NULL"))
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	defer rows.Close()
	changes, last := map[string][]byte{}, map[string]protocol.LSN{}
	for rows.Next() {
		var lsn, xid string
		var data []byte
		if err := rows.Scan(&lsn, &xid, &data); err != nil {
			t.Fatal(err)
		}
		at, err := protocol.ParseLSN(lsn)
		if err != nil {
			t.Fatal(err)
		}
		if s.plugin == "pgoutput" && (data[0] == 'R' || data[0] == 'Y') {
			continue
		}
		changes[xid] = append(changes[xid], data...)
		last[xid] = at // of a transaction's last row: the end of its commit record
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	out := map[string]string{}
	for xid, data := range changes {
		if last[xid] > after {
			sum := sha256.Sum256(data)
			out[xid] = hex.EncodeToString(sum[:8])
		}
	}
	return out
}

// load is a number of writers that overlap each other all the time.
type load struct {
	done  atomic.Int64 // committed transactions
	ended atomic.Bool  // every writer ends its transaction, and then itself
	wg    sync.WaitGroup
}

func startLoad(t *testing.T, server *cluster.Server, seed uint64) *load {
	t.Helper()
	l := &load{}
	for d, db := range digestDatabases {
		for n := range digestWriters {
			conn, err := server.Connect(t.Context(), db)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(seed, uint64(1+d*digestWriters+n)))
			l.wg.Go(func() { l.write(conn, n, rng) })
		}
	}
	t.Cleanup(l.stop)
	return l
}

func (l *load) stop() {
	l.ended.Store(true)
	l.wg.Wait()
}

func (l *load) write(conn *pgx.Conn, n int, rng *rand.Rand) {
	ctx := context.Background()
	defer conn.Close(ctx)
	for columns := 0; !l.ended.Load(); {
		statements := []string{"BEGIN"}
		for range 1 + rng.IntN(4) {
			statements = append(statements,
				fmt.Sprintf("INSERT INTO w%d (v) SELECT repeat('x', %d) FROM generate_series(1, %d)", n, rng.IntN(40), 1+rng.IntN(5)),
				fmt.Sprintf("SELECT pg_sleep(%f)", rng.Float64()*0.02))
			switch rng.IntN(8) {
			case 0:
				columns++
				statements = append(statements, fmt.Sprintf("ALTER TABLE w%d ADD COLUMN c%d int DEFAULT %d", n, columns, columns))
			case 1:
				statements = append(statements, fmt.Sprintf("ALTER TABLE w%d DROP COLUMN IF EXISTS c%d", n, rng.IntN(columns+1)))
			case 2:
				statements = append(statements, fmt.Sprintf("UPDATE w%d SET v = 'u' WHERE i %% 7 = %d", n, rng.IntN(7)))
			case 3:
				statements = append(statements, "SAVEPOINT a",
					fmt.Sprintf("DELETE FROM w%d WHERE i %% 11 = %d", n, rng.IntN(11)), "ROLLBACK TO a")
			case 4:
				statements = append(statements,
					fmt.Sprintf("CREATE TABLE tmp_%d (i int)", n), fmt.Sprintf("INSERT INTO tmp_%d VALUES (1)", n),
					fmt.Sprintf("DROP TABLE tmp_%d", n))
			}
		}
		end := "COMMIT"
		if rng.IntN(10) == 0 {
			end = "ROLLBACK"
		}
		for _, s := range append(statements, end) {
			if _, err := conn.Exec(ctx, s); err != nil {
				_, _ = conn.Exec(ctx, "ROLLBACK") // a failed transaction is as good as one rolled back
				break
			}
		}
		l.done.Add(1)
	}
}

// waitTransactions waits until that many more have been done.
func (l *load) waitTransactions(t *testing.T, n int) {
	t.Helper()
	goal := l.done.Load() + int64(n)
	poll.Require(t, 60*time.Second, "transactions", func(context.Context) (bool, string) {
		return l.done.Load() >= goal, fmt.Sprint(l.done.Load())
	})
}
