package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// subscriberClient is a logical client that confirms whatever position it sees.
type subscriberClient struct {
	conn *pgconn.PgConn
	done chan struct{}

	mu   sync.Mutex
	seen protocol.LSN // greatest position
	text []byte       // all data
}

// startClient streams a slot, through whatever conninfo says.
func startClient(t *testing.T, conninfo, command string) *subscriberClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	conn, err := pgconn.Connect(ctx, conninfo+" replication=database")
	must(t, err)
	conn.Frontend().Send(&pgproto3.Query{String: command})
	must(t, conn.Frontend().Flush())
	for {
		m, err := conn.ReceiveMessage(ctx)
		must(t, err)
		if _, ok := m.(*pgproto3.CopyBothResponse); ok {
			break
		}
	}
	c := &subscriberClient{conn: conn, done: make(chan struct{})}
	run, stop := context.WithCancel(context.Background())
	go c.run(run)
	t.Cleanup(func() {
		stop()
		<-c.done
		_ = conn.Close(context.Background())
	})
	return c
}

func (c *subscriberClient) run(ctx context.Context) {
	defer close(c.done)
	for {
		m, err := c.conn.ReceiveMessage(ctx)
		if err != nil {
			return
		}
		data, ok := m.(*pgproto3.CopyData)
		if !ok {
			continue
		}
		var x protocol.XLogData
		var k protocol.PrimaryKeepalive
		c.mu.Lock()
		if x.Decode(data.Data[1:]) == nil && data.Data[0] == protocol.MsgXLogData {
			c.seen = max(c.seen, x.DataStart)
			c.text = append(c.text, x.Data...)
		} else if k.Decode(data.Data[1:]) == nil {
			c.seen = max(c.seen, k.WALEnd)
		}
		seen := c.seen
		c.mu.Unlock()
		reply := protocol.StandbyStatusUpdate{Write: seen, Flush: seen, Apply: seen}
		c.conn.Frontend().Send(&pgproto3.CopyData{Data: reply.Append(nil)})
		if c.conn.Frontend().Flush() != nil {
			return
		}
	}
}

func (c *subscriberClient) has(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.text, []byte(text))
}

func (c *subscriberClient) position() protocol.LSN {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

// Streamed transactions, prepared ones, messages, test_decoding and pg_recvlogical:
// none gets past a standby that stands still, and all go on when it does. It does not
// matter whether the standby streams through the relay; where it does not, and the
// role may not see walsenders, its slot says where it is. Who is not held back is
// named.
func TestEveryKindOfStreamIsHeldBack(t *testing.T) {
	t.Parallel()
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{Settings: map[string]string{
			"logical_decoding_work_mem": "64kB", "max_prepared_transactions": "5"}})
		clustertest.Exec(t, primary, "postgres", "CREATE ROLE ferry LOGIN", "CREATE TABLE t (v text)", "CREATE PUBLICATION p FOR TABLE t",
			"SELECT pg_create_logical_replication_slot('streams', 'pgoutput')",
			"SELECT pg_create_logical_replication_slot('prepares', 'test_decoding', false, true)",
			"SELECT pg_create_logical_replication_slot('file', 'test_decoding')",
			"SELECT pg_create_logical_replication_slot('bypass', 'test_decoding')",
			"SELECT pg_create_logical_replication_slot('polled', 'test_decoding')")
		// A message that takes effect without a transaction has the end of its record for
		// its position: without that its content would have to be looked at.
		end := clustertest.Value[string](t, primary, "postgres", "SELECT pg_logical_emit_message(false, 'p', repeat('x', 9000))::text")
		clustertest.Exec(t, primary, "postgres", "INSERT INTO t VALUES ('')") // has it flushed
		if at := clustertest.Value[string](t, primary, "postgres", "SELECT lsn::text FROM pg_logical_slot_get_changes('polled', NULL, NULL) WHERE data LIKE 'message:%'"); at != end {
			t.Errorf("a message that ends at %s has the position %s", end, at)
		}
		source := startSource(t, primary, relay.SlotSourceConfig{
			Conninfo: primary.Conninfo("postgres") + " user=ferry", PollInterval: 20 * time.Millisecond, Walsenders: true})
		names, err := relay.ParseStandbyNames("phys")
		must(t, err)
		r := startRelay(t, relay.Config{Upstream: primary.Conninfo("postgres"), Mode: relay.ModePlain, RefuseTLS: true,
			HoldBack: &relay.HoldBack{Standbys: names, Source: source}})
		standby := clustertest.Standby(t, primary, cluster.StandbyConfig{Name: "s1", SlotName: "phys", Via: r.addr})

		streams := startClient(t, via(r, ""),
			"START_REPLICATION SLOT streams LOGICAL 0/0 (proto_version '2', publication_names 'p', streaming 'on', messages 'true')")
		prepares := startClient(t, via(r, ""), "START_REPLICATION SLOT prepares LOGICAL 0/0")
		path := filepath.Join(t.TempDir(), "out")
		cmd, out := command(t, primary, "pg_recvlogical", "-S", "file", "--start", "-f", path, "-F", "0", "-d", via(r, ""))
		must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); t.Logf("pg_recvlogical: %s", out) })
		startClient(t, primary.Conninfo("postgres"), "START_REPLICATION SLOT bypass LOGICAL 0/0")
		all := func(text string) (bool, string) {
			file, _ := os.ReadFile(path) // not there yet
			got := []bool{streams.has(text), prepares.has(text), bytes.Contains(file, []byte(text))}
			return got[0] && got[1] && got[2], fmt.Sprintf("%v %+v", got, r.Status().HoldBack)
		}
		held := func(stage string) {
			t.Helper()
			clustertest.Exec(t, primary, "postgres", "INSERT INTO t VALUES ('before "+stage+"')")
			require(t, "all streams at "+stage, func(context.Context) (bool, string) { return all("before " + stage) })
			must(t, primary.WaitForStandby(t.Context(), standby))
			must(t, standby.Pause(t.Context()))
			limit := mustParse(t, clustertest.Value[string](t, primary, "postgres", "SELECT restart_lsn::text FROM pg_replication_slots WHERE slot_name = 'phys'"))
			clustertest.Exec(t, primary, "postgres", "INSERT INTO t SELECT repeat('large', 50) FROM generate_series(1, 2000)",
				"BEGIN; INSERT INTO t VALUES ('held "+stage+"'); PREPARE TRANSACTION 'x'", "COMMIT PREPARED 'x'",
				"SELECT pg_logical_emit_message(false, 'p', 'held "+stage+"')",
				"SELECT count(*) FROM pg_logical_slot_get_changes('polled', NULL, NULL)")
			require(t, "three streams that are held", func(context.Context) (bool, string) {
				n, st := 0, r.Status()
				for _, s := range st.Sessions {
					if s.HoldBack != nil && s.HoldBack.State == "held" && s.Position <= limit {
						n++
					}
				}
				return n == 3, fmt.Sprintf("%d of %+v", n, st)
			})
			for name, seen := range map[string]protocol.LSN{"streams": streams.position(), "prepares": prepares.position()} {
				if seen > limit {
					t.Errorf("%s: %s has seen %v, the standby has flushed %v", stage, name, seen, limit)
				}
			}
			if n := clustertest.Value[int](t, primary, "postgres", "SELECT count(*)::int FROM pg_replication_slots "+
				"WHERE slot_name IN ('streams', 'prepares', 'file') AND confirmed_flush_lsn > $1::pg_lsn", limit.String()); n != 0 {
				t.Errorf("%s: %d slots are confirmed past %v", stage, n, limit)
			}
			file, err := os.ReadFile(path)
			must(t, err)
			if text := "held " + stage; streams.has(text) || prepares.has(text) || bytes.Contains(file, []byte(text)) {
				t.Errorf("%s: somebody has what the standby has not", stage)
			}
			require(t, "who is not held back to be named", func(context.Context) (bool, string) {
				var got []string
				for _, s := range r.Status().HoldBack.Slots {
					got = append(got, fmt.Sprintf("%s:%s:%v", s.Name, s.Consumer, s.Ahead > 0))
				}
				text := strings.Join(got, " ")
				return text == "bypass:walsender:true file:relay:false polled:sql:true prepares:relay:false streams:relay:false", text
			})
			must(t, standby.Resume())
			require(t, "what was held at "+stage, func(context.Context) (bool, string) { return all("held " + stage) })
		}
		held("relayed")
		must(t, standby.SetConf(t.Context(), "primary_conninfo", primary.ReplicationConninfo("s1")))
		require(t, "a standby that streams elsewhere", func(context.Context) (bool, string) {
			c := r.Status().HoldBack.Connected
			return len(c) == 1 && !c[0].Relayed && c[0].Slot == "phys", fmt.Sprintf("%+v", c)
		})
		held("elsewhere")
	})
}

func mustParse(t *testing.T, text string) protocol.LSN {
	t.Helper()
	lsn, err := protocol.ParseLSN(text)
	must(t, err)
	return lsn
}
