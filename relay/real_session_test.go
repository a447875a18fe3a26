package relay_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// via is the server's conninfo with the relay's port in it.
func via(r *runningRelay, params string) string {
	host, port, _ := net.SplitHostPort(r.addr)
	return fmt.Sprintf("host=%s port=%s user=%s dbname=postgres sslmode=disable %s", host, port, cluster.Superuser, params)
}

// The helper's sidecar, as pgconn logs it in: slot messages without a stream,
// and no walsender that streams.
func TestSidecarOnServer(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{HBA: []string{
			"host all all 127.0.0.1/32 scram-sha-256", "host replication all 127.0.0.1/32 scram-sha-256"}})
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		defer cancel()
		clustertest.Exec(t, primary, "postgres", "CREATE ROLE ferry LOGIN REPLICATION PASSWORD 'secret'",
			"SELECT pg_create_logical_replication_slot('orders', 'pgoutput')")
		source := startSource(t, primary, relay.SlotSourceConfig{
			Conninfo: primary.Conninfo("postgres") + " user=ferry password=secret"})
		r := startRelay(t, relay.Config{Upstream: primary.Conninfo("postgres"), Mode: relay.ModeSplice, Slots: source})

		cfg, err := pgconn.ParseConfig(via(r, "user=ferry password=wrong replication=true"))
		must(t, err)
		cfg.RuntimeParams[protocol.OptInParameter] = protocol.OptInValue
		_, err = pgconn.ConnectConfig(ctx, cfg)
		if err == nil || !strings.Contains(err.Error(), "28P01") {
			t.Fatalf("a wrong password gives %v", err)
		}
		cfg.Password = "secret"
		conn, err := pgconn.ConnectConfig(ctx, cfg)
		must(t, err)
		defer conn.Close(context.Background())
		messages, end := openSidecar(t, conn)
		m := messages()
		if len(m.Slots) != 1 || m.Slots[0].Name != "orders" || m.Slots[0].Plugin != "pgoutput" {
			t.Errorf("message %+v", m)
		}
		clustertest.Exec(t, primary, "postgres", "SELECT pg_create_logical_replication_slot('later', 'pgoutput')")
		for len(m.Slots) != 2 {
			m = messages()
		}
		if n := clustertest.Value[int](t, primary, "postgres",
			"SELECT count(*)::int FROM pg_stat_replication WHERE state <> 'startup'"); n != 0 {
			t.Errorf("%d walsenders stream", n)
		}

		// Without the privilege the hint names the statement that gives it.
		report, err := (&protocol.HelperReport{SnapshotRequest: 1}).Append(nil)
		must(t, err)
		conn.Frontend().Send(&pgproto3.CopyData{Data: report})
		must(t, conn.Frontend().Flush())
		require(t, "a hint", func(context.Context) (bool, string) {
			st := source.Status()
			return strings.Contains(st.SnapshotError, "42501") && strings.Contains(st.SnapshotHint,
				`GRANT EXECUTE ON FUNCTION pg_log_standby_snapshot() TO "ferry"`), fmt.Sprintf("%+v", st)
		})
		end()
		if _, err := conn.Exec(ctx, "IDENTIFY_SYSTEM").ReadAll(); err != nil {
			t.Errorf("command after SLOT_STATE: %v", err)
		}
		if log := primary.Log(); strings.Contains(log, "_pq_") || strings.Contains(log, "SLOT_STATE") {
			t.Error("the primary has seen what is between helper and relay")
		}
	})
}

// openSidecar sends SLOT_STATE. next returns the next message, end ends it.
func openSidecar(t *testing.T, conn *pgconn.PgConn) (next func() *protocol.SlotMessage, end func()) {
	t.Helper()
	f := conn.Frontend()
	receive := func() pgproto3.BackendMessage {
		t.Helper()
		m, err := f.Receive()
		must(t, err)
		return m
	}
	f.Send(&pgproto3.Query{String: "SLOT_STATE"})
	must(t, f.Flush())
	if m, ok := receive().(*pgproto3.CopyBothResponse); !ok {
		t.Fatalf("got %T", m)
	}
	var a protocol.Assembler
	next = func() *protocol.SlotMessage {
		t.Helper()
		for {
			data, ok := receive().(*pgproto3.CopyData)
			if !ok || data.Data[0] != protocol.MsgXLogData {
				t.Fatalf("got %T", data)
			}
			m, err := a.Add(data.Data[protocol.XLogDataHeaderLen:])
			must(t, err)
			if m != nil {
				return m
			}
		}
	}
	end = func() {
		t.Helper()
		f.Send(&pgproto3.CopyDone{})
		must(t, f.Flush())
		for {
			if _, ok := receive().(*pgproto3.ReadyForQuery); ok {
				return
			}
		}
	}
	return next, end
}

// A timeline ends: CopyDone both ways, then the next one on the same
// connection, with slot messages in both.
func TestTimelineSwitch(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		ctx := t.Context()
		primary := clustertest.Primary(t, major, cluster.Config{})
		first := clustertest.Standby(t, primary, cluster.StandbyConfig{Name: "first", SlotName: "first"})
		source := startSource(t, first, relay.SlotSourceConfig{PollInterval: 20 * time.Millisecond, Heartbeat: 20 * time.Millisecond})
		splice := startRelay(t, relay.Config{Upstream: first.Conninfo("postgres"), Mode: relay.ModeSplice, Slots: source})
		sink := new(sink)
		strip := startRelay(t, relay.Config{Upstream: via(splice, ""), Mode: relay.ModeStrip, Sink: sink})
		second := clustertest.Standby(t, first, cluster.StandbyConfig{Name: "second", SlotName: "second", Via: strip.addr})
		traffic(t, primary, 3)
		must(t, primary.WaitForStandby(ctx, second))
		sink.wait(t, "recovery", func(m *protocol.SlotMessage) bool { return m.InRecovery && m.TimelineID == 1 && m.CaptureLSN > 0 })
		receiver := func() int {
			return clustertest.Value[int](t, second, "postgres", "SELECT coalesce((SELECT pid FROM pg_stat_wal_receiver), 0)")
		}
		pid := receiver()
		mark := second.LogSize()
		must(t, first.Promote(ctx))
		must(t, second.WaitLogSince(ctx, mark, "restarted WAL streaming"))
		traffic(t, first, 3)
		must(t, first.WaitForStandby(ctx, second))
		m := sink.wait(t, "timeline 2", func(m *protocol.SlotMessage) bool { return m.TimelineID == 2 && !m.InRecovery })
		if got := receiver(); got != pid || pid == 0 {
			t.Errorf("walreceiver is %d, was %d", got, pid)
		}
		log := second.LogSince(mark)
		for _, want := range []string{"replication terminated by primary server", "fetching timeline history file"} {
			if !strings.Contains(log, want) {
				t.Errorf("the log lacks %q:\n%s", want, log)
			}
		}
		if strings.Contains(log, "FATAL") || strings.Contains(log, "ERROR") {
			t.Errorf("log of the standby:\n%s", log)
		}
		// The last segment of timeline 1 is rightly done; segment 0 never is there.
		if found := segmentZero(t, second); len(found) > 0 {
			t.Errorf("traces of slot messages in pg_wal: %q", found)
		}
		if st := splice.Status().Sessions; len(st) != 1 || st[0].TimelineID != 2 || st[0].Position == 0 {
			t.Errorf("sessions %+v", st)
		}
		if m.Epoch == 0 || m.Slots != nil {
			t.Errorf("message %+v", m)
		}
		checkReplies(t, first, splice)
	})
}

// The relay's own connection is never a synchronous standby, and
// application_name passes.
func TestSynchronousStandby(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		ctx := t.Context()
		primary := clustertest.Primary(t, major, cluster.Config{})
		source := startSource(t, primary, relay.SlotSourceConfig{})
		r := startRelay(t, relay.Config{Upstream: primary.Conninfo("postgres"), Mode: relay.ModeSplice, Slots: source})
		standby := clustertest.Standby(t, primary, cluster.StandbyConfig{Name: "s1", SlotName: "s1", Via: r.addr})
		clustertest.Exec(t, primary, "postgres", "CREATE TABLE sync (n int)")
		insert := func(timeout string) error {
			return primary.Exec(ctx, "postgres", "SET statement_timeout = '"+timeout+"'", "INSERT INTO sync VALUES (1)")
		}
		for _, names := range []string{"s1", "FIRST 1 (*)"} {
			must(t, primary.SetConf(ctx, "synchronous_standby_names", names))
			must(t, primary.WaitForStreaming(ctx, "s1"))
			require(t, "a synchronous standby", func(ctx context.Context) (bool, string) {
				state, err := cluster.QueryValue[string](ctx, primary, "postgres",
					"SELECT coalesce(string_agg(application_name || ' ' || sync_state, ','), '') FROM pg_stat_replication")
				return state == "s1 sync", fmt.Sprint(state, err)
			})
			must(t, insert("20s"))
			must(t, standby.Stop(ctx, cluster.Fast))
			// A commit that waits cannot be cancelled without a warning; the transaction
			// itself is there. Whether it waited shows in pg_stat_activity.
			done := make(chan error, 1)
			go func() { done <- insert("0") }()
			require(t, "a commit that waits", func(ctx context.Context) (bool, string) {
				n, err := cluster.QueryValue[int](ctx, primary, "postgres",
					"SELECT count(*)::int FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
				return n == 1, fmt.Sprint(n, err)
			})
			must(t, standby.Start(ctx))
			select {
			case err := <-done:
				must(t, err)
			case <-time.After(waitTimeout):
				t.Fatal("the commit does not end")
			}
		}
	})
}

// One negotiation only, and it is the server's: the same bytes with the relay
// as without.
func TestNegotiationIsTheServers(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{})
		r := startRelay(t, relay.Config{Upstream: primary.Conninfo("postgres"), Mode: relay.ModeSplice})
		start := func(version uint32, pairs ...string) []byte {
			m := protocol.StartupMessage{Version: version}
			pairs = append([]string{"user", cluster.Superuser, "database", "postgres"}, pairs...)
			for i := 0; i < len(pairs); i += 2 {
				m.Parameters = append(m.Parameters, protocol.StartupParameter{Name: pairs[i], Value: pairs[i+1]})
			}
			return m.Append(nil)
		}
		ssl := protocol.AppendStartupRequest(nil, protocol.SSLRequestCode)
		gss := protocol.AppendStartupRequest(nil, protocol.GSSENCRequestCode)
		for name, packets := range map[string][][]byte{
			"3.0":           {start(0x30000)},
			"3.2":           {start(0x30002)},
			"grease":        {start(0x3270f, "_pq_.test_protocol_negotiation", "")},
			"marker":        {start(0x30000, protocol.OptInParameter, "1")},
			"physical":      {start(0x30000, "replication", "true", "options", "-c wal_sender_timeout=5s")},
			"ssl":           {ssl, start(0x30000)},
			"gss ssl":       {gss, ssl, start(0x30000)},
			"ssl gss":       {ssl, gss, start(0x30000)},
			"ssl twice":     {ssl, ssl},
			"gss twice":     {gss, gss},
			"2.0":           {start(0x20000)},
			"no terminator": {[]byte("\x00\x00\x00\x0d\x00\x03\x00\x00user\x00")},
			"unknown GUC":   {start(0x30000, "no.such", "x", "options", "-c nonsense=1")},
		} {
			var got [2]string
			for i, addr := range []string{primary.Addr(), r.addr} {
				sent := packets
				if i == 0 && name == "marker" {
					sent = [][]byte{start(0x30000)}
				}
				got[i] = dialogue(t, addr, sent)
			}
			if got[0] != got[1] {
				t.Errorf("%s: direct %q, through the relay %q", name, got[0], got[1])
			}
			if want := map[int]string{17: "v 00030000 0", 18: "K 40"}[major]; name == "3.2" && !strings.Contains(got[1], want) {
				t.Errorf("%s: %q lacks %q", name, got[1], want)
			}
		}
	})
}

// dialogue sends startup packets and returns what comes back, without what
// differs between two sessions.
func dialogue(t *testing.T, addr string, packets [][]byte) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(waitTimeout))
	var out strings.Builder
	for i, p := range packets {
		_, err := conn.Write(p)
		must(t, err)
		var b [1]byte
		if len(p) != 8 {
			break
		}
		if n, _ := conn.Read(b[:]); n == 0 {
			return out.String() + "closed"
		}
		fmt.Fprintf(&out, "%c ", b[0])
		if b[0] != 'N' || i == len(packets)-1 && b[0] == 'N' {
			rest, _ := io.ReadAll(conn)
			return fmt.Sprintf("%s%q", out.String(), rest)
		}
	}
	for {
		var head [5]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return out.String() + "closed"
		}
		n := binary.BigEndian.Uint32(head[1:])
		body := make([]byte, n-4)
		if _, err := io.ReadFull(conn, body); err != nil {
			return out.String() + "cut"
		}
		switch head[0] {
		case 'K':
			fmt.Fprintf(&out, "K %d\n", n)
		case 'v':
			fmt.Fprintf(&out, "v %x %d %q\n", body[:4], binary.BigEndian.Uint32(body[4:]), body[8:])
		case 'Z':
			return out.String() + "ready"
		default:
			fmt.Fprintf(&out, "%c %q\n", head[0], body)
		}
	}
}
