package decoder

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/protocol"
)

const (
	digestSlots   = 16
	digestWriters = 5 // of each database
)

var (
	digestDatabases = []string{"postgres", "q'uote Ünï"}
	digestPlugins   = []string{"pgoutput", "test_decoding"}
)

// Under overlapping transactions and DDL in two databases, slots are born
// upstream at random moments and consumed at random. After the promotion each
// slot of the standby gives, from U on, what a witness on the primary gives that
// was born in quiet, digest for digest. This is what I-0 to I-5 are for.
//
// The upstream's own slot is no witness: PostgreSQL may give a slot that is born
// under DDL a catalog snapshot that is not right, and then that slot alone fails to
// decode the transactions around its birth, or decodes them wrongly.
func TestDecodedStreamIsTheUpstreams(t *testing.T) {
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		p := newPair(t, major)
		prepareDigestDatabases(t, p.primary)
		p.waitAnchor(t)
		witnesses := startWitnesses(t, p.primary)

		load := startLoad(t, p.primary, seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		for i := range digestSlots {
			load.waitTransactions(t, 10+rng.IntN(40))
			s := digestSlot(i)
			clustertest.Exec(t, p.primary, s.database,
				fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', '%s')", s.name, s.plugin))
			consume(t, p.primary, digestSlot(rng.IntN(i+1)), 1+rng.IntN(200))
			if i%4 == 3 {
				witnesses.take(t)
			}
		}
		load.waitTransactions(t, 100)
		load.stop()
		for i := range digestSlots {
			p.slot(t, digestSlot(i).name, StateReady, ReasonNone)
		}

		from := map[string]protocol.LSN{}
		for i := range digestSlots {
			from[digestSlot(i).name] = confirmed(t, p.primary, digestSlot(i).name)
		}
		// Autovacuum goes on, and test_decoding sends its transactions too.
		end, err := p.primary.CurrentLSN(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		witnesses.take(t)
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
			want := witnesses.saw(s).between(from[s.name], end)
			got := peek(t, p.standby, s).between(from[s.name], end)
			transactions += len(want)
			want.compare(t, s.name, got)
		}
		t.Logf("%d slots, %d transactions compared", digestSlots, transactions)
		if transactions < digestSlots {
			t.Error("too few transactions to prove anything")
		}
	})
}

type slotSpec struct{ name, database, plugin string }

func digestSlot(i int) slotSpec {
	plugin := digestPlugins[min(i%3, 1)]
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

// consume lets the upstream's slot confirm some of what is there. A slot that its
// birth under DDL left with a wrong catalog snapshot cannot: this slot confirms
// nothing then. The two errors are of RelidByRelfilenumber (relfilenumbermap.c) and
// RelationBuildTupleDesc (relcache.c).
func consume(t *testing.T, server *cluster.Server, s slotSpec, n int) {
	t.Helper()
	err := server.Exec(t.Context(), s.database, fmt.Sprintf("SELECT count(*) FROM %s", changesQuery(s, "get", fmt.Sprint(n))))
	var pgErr *pgconn.PgError
	if err == nil || errors.As(err, &pgErr) && pgErr.Code == "XX000" &&
		(strings.Contains(pgErr.Message, "unexpected duplicate") || strings.Contains(pgErr.Message, "catalog is missing")) {
		return
	}
	t.Fatal(err)
}
