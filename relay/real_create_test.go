package relay_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// What holding the answer to CREATE_REPLICATION_SLOT back rests on: the snapshot of a
// new slot sees a transaction if, and only if, its commit record ends at
// consistent_point or before. Transactions overlap, and do not wait for their flush;
// another slot says where each has committed.
func TestSnapshotOfNewSlotSeesWhatIsBeforeConsistentPoint(t *testing.T) {
	t.Parallel()
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		const writers, slots = 6, 12
		primary := clustertest.Primary(t, major, cluster.Config{Settings: map[string]string{
			"synchronous_commit": "off", "max_replication_slots": "20", "max_wal_senders": "20"}})
		clustertest.Exec(t, primary, "postgres", "CREATE TABLE t (i int PRIMARY KEY)", "CREATE TABLE stop ()",
			"SELECT pg_create_logical_replication_slot('all', 'test_decoding')")
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				if err := primary.Exec(t.Context(), "postgres", fmt.Sprintf("DO $$ DECLARE n int := %d; BEGIN WHILE NOT EXISTS (SELECT FROM stop) "+
					"LOOP n := n + 1; INSERT INTO t VALUES (n); PERFORM pg_sleep(0.004); COMMIT; END LOOP; END $$", w*1000000)); err != nil {
					t.Error(err)
				}
			})
		}
		visible := map[protocol.LSN][]string{} // by consistent_point
		for i := range slots {
			conn, err := primary.ConnectReplication(t.Context(), "postgres")
			must(t, err)
			run := func(sql string) [][][]byte {
				t.Helper()
				results, err := conn.Exec(t.Context(), sql).ReadAll()
				must(t, err)
				return results[0].Rows
			}
			run("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
			row := run(fmt.Sprintf("CREATE_REPLICATION_SLOT s%d TEMPORARY LOGICAL test_decoding USE_SNAPSHOT", i))[0]
			for _, r := range run("SELECT i FROM t") {
				at := mustParse(t, string(row[1]))
				visible[at] = append(visible[at], string(r[0]))
			}
			must(t, conn.Close(t.Context()))
		}
		clustertest.Exec(t, primary, "postgres", "INSERT INTO stop DEFAULT VALUES")
		wg.Wait()
		clustertest.Exec(t, primary, "postgres", "BEGIN; SET LOCAL synchronous_commit = on; INSERT INTO stop DEFAULT VALUES; COMMIT") // has all flushed
		commits, err := cluster.QueryColumn[string](t.Context(), primary, "postgres",
			"SELECT lsn || ' ' || coalesce(substring(data FROM 'INSERT: i.*:(\\d+)$'), left(data, 6)) FROM pg_logical_slot_get_changes('all', NULL, NULL)")
		must(t, err)
		end, row := map[string]protocol.LSN{}, ""
		for _, line := range commits {
			lsn, text, _ := strings.Cut(line, " ")
			if _, err := strconv.Atoi(text); err == nil {
				row = text
			} else if text == "COMMIT" && row != "" {
				end[row] = mustParse(t, lsn)
				row = ""
			}
		}
		if all := clustertest.Value[int](t, primary, "postgres", "SELECT count(*)::int FROM t"); len(end) != all {
			t.Fatalf("%d of %d transactions are known", len(end), all)
		}
		partial := 0
		for point, rows := range visible {
			if len(rows) < len(end) {
				partial++
			}
			seen := map[string]bool{}
			for _, r := range rows {
				seen[r] = true
			}
			for r, at := range end {
				if seen[r] != (at <= point) {
					t.Errorf("row %s, whose commit ends at %v, is visible: %v, in the snapshot of a slot made at %v", r, at, seen[r], point)
				}
			}
		}
		t.Logf("%d transactions, %d slots that see rows, %d of them not all", len(end), len(visible), partial)
		if partial < slots/2 {
			t.Error("too few snapshots in the midst of writing: this shows little")
		}
	})
}

// Which answers are held, on a server: those to commands that make a logical slot with
// a snapshot, in the old syntax and in the new; nothing else, no failure, none for a
// slot that is exempt, and none for longer than --hold-back-timeout. A client that
// cancels is heard.
func TestWhichCreationsAreHeld(t *testing.T) {
	t.Parallel()
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{})
		source := startSource(t, primary, relay.SlotSourceConfig{
			Conninfo: primary.Conninfo("postgres"), PollInterval: 20 * time.Millisecond, Walsenders: true})
		names, err := relay.ParseStandbyNames("nobody")
		must(t, err)
		hold := relay.HoldBack{Standbys: names, Source: source, Exempt: []string{"free_*"}}
		r := startRelay(t, relay.Config{Upstream: primary.Conninfo("postgres"), Mode: relay.ModePlain, RefuseTLS: true, HoldBack: &hold})
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		defer cancel()
		connect := func(replication string) *pgconn.PgConn {
			t.Helper()
			conn, err := pgconn.Connect(ctx, via(r, "replication="+replication))
			must(t, err)
			t.Cleanup(func() { _ = conn.Close(context.Background()) })
			return conn
		}
		logical := connect("database")
		for _, command := range []string{
			"CREATE_REPLICATION_SLOT n1 LOGICAL test_decoding NOEXPORT_SNAPSHOT",
			"CREATE_REPLICATION_SLOT n2 LOGICAL test_decoding (SNAPSHOT 'nothing')",
			"CREATE_REPLICATION_SLOT p1 PHYSICAL", "READ_REPLICATION_SLOT p1", "IDENTIFY_SYSTEM",
			"CREATE_REPLICATION_SLOT free_1 LOGICAL test_decoding",
		} {
			if _, err := logical.Exec(ctx, command).ReadAll(); err != nil {
				t.Errorf("%s: %v", command, err)
			}
		}
		if _, err := connect("true").Exec(ctx, "CREATE_REPLICATION_SLOT p2 PHYSICAL").ReadAll(); err != nil {
			t.Error(err)
		}
		if _, err := logical.Exec(ctx, "CREATE_REPLICATION_SLOT n1 LOGICAL test_decoding").ReadAll(); pgError(err) == nil || pgError(err).Code != "42710" {
			t.Errorf("a slot that exists: %v", err)
		}

		for i, command := range []string{
			"CREATE_REPLICATION_SLOT held%d TEMPORARY LOGICAL test_decoding",
			"CREATE_REPLICATION_SLOT held%d LOGICAL test_decoding EXPORT_SNAPSHOT",
			"CREATE_REPLICATION_SLOT held%d LOGICAL test_decoding (SNAPSHOT 'export')",
			"BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ; CREATE_REPLICATION_SLOT held%d LOGICAL test_decoding USE_SNAPSHOT",
			"BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ; CREATE_REPLICATION_SLOT held%d LOGICAL test_decoding (SNAPSHOT 'use')",
		} {
			conn := connect("database")
			begin, create, found := strings.Cut(fmt.Sprintf(command, i), "; ")
			if found {
				_, err := conn.Exec(ctx, begin).ReadAll()
				must(t, err)
			} else {
				create = begin
			}
			done := make(chan error, 1)
			go func() {
				_, err := conn.Exec(ctx, create).ReadAll()
				done <- err
			}()
			require(t, create+" to be held", func(context.Context) (bool, string) {
				st := r.Status().Sessions
				return slices.ContainsFunc(st, func(s relay.SessionStatus) bool {
					return s.HoldBack != nil && s.HoldBack.Creates && s.HoldBack.Slot == fmt.Sprintf("held%d", i) && s.HoldBack.Reason == relay.HoldTooFew
				}), fmt.Sprintf("%+v", st)
			})
			must(t, conn.CancelRequest(ctx))
			if err := <-done; pgError(err) == nil || pgError(err).Code != "57014" {
				t.Errorf("%s, canceled, ends with %v", create, err)
			}
		}

		// The walsender is idle in a transaction meanwhile. One that ends for that is not
		// waited for.
		idle := connect("database options='-c idle_in_transaction_session_timeout=500ms'")
		if _, err := idle.Exec(ctx, "CREATE_REPLICATION_SLOT idle TEMPORARY LOGICAL test_decoding").ReadAll(); pgError(err) == nil || pgError(err).Code != "08006" {
			t.Errorf("a creation whose walsender ends while it is held: %v", err)
		}

		hold.Timeout = 100 * time.Millisecond
		must(t, r.SetHoldBack(hold))
		before := r.Status().HoldBack.LetGo
		if _, err := logical.Exec(ctx, "CREATE_REPLICATION_SLOT slow LOGICAL test_decoding").ReadAll(); err != nil {
			t.Error(err)
		}
		if n := r.Status().HoldBack.LetGo; n != before+1 {
			t.Errorf("%d let go, %d before", n, before)
		}
	})
}
