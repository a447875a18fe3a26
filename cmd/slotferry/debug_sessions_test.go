package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/protocol"
)

var rewriteSessions = flag.Bool("rewrite-sessions", false, "record testdata/capture/session.capture anew; then run go test ./internal/inspect -rewrite")

// TestRecordSessions records, behind a recording proxy and a relay, what the
// golden files of internal/inspect are made of: a login by SCRAM, replication
// commands, a physical and a logical stream, slot messages, an error.
func TestRecordSessions(t *testing.T) {
	r := record(t, slices.Max(clustertest.Majors(t)))
	clustertest.Exec(t, r.primary, "postgres", "SELECT pg_create_logical_replication_slot('orders', 'pgoutput')",
		"CREATE TABLE orders (id int PRIMARY KEY, item text)", "CREATE PUBLICATION p FOR TABLE orders",
		"SELECT pg_create_physical_replication_slot('ph1', true)", "SELECT pg_switch_wal()", "CHECKPOINT")
	relayAddr := freeAddr(t)
	relay := start(t, nil, "relay", "--listen", relayAddr, "--upstream", r.primary.Conninfo("postgres"))
	relay.document(t, "the relay to be ready", func(d *statusdoc.Document) bool { return d.Ready })
	file := filepath.Join(t.TempDir(), "session.capture")
	addr := freeAddr(t)
	proxy := start(t, nil, "debug", "capture", "--listen", addr, "--upstream", conninfoOf(t, relayAddr), "--out", file)
	through := &recording{primary: r.primary, proxy: proxy, addr: addr, file: file}
	through.waitListening(t)

	from := clustertest.Value[string](t, r.primary, "postgres", "SELECT pg_current_wal_lsn()::text")
	clustertest.Exec(t, r.primary, "postgres", "INSERT INTO orders VALUES (1, 'one'), (2, NULL)", "UPDATE orders SET item = 'two' WHERE id = 2",
		"DELETE FROM orders WHERE id = 1", "SELECT pg_logical_emit_message(true, 'prefix', 'content')")
	end, err := protocol.ParseLSN(clustertest.Value[string](t, r.primary, "postgres", "SELECT pg_current_wal_flush_lsn()::text"))
	if err != nil {
		t.Fatal(err)
	}
	conn := through.connect(t, "replication=true _pq_.slotferry=1")
	for _, command := range []string{"IDENTIFY_SYSTEM", "SHOW wal_segment_size", "READ_REPLICATION_SLOT ph1", "TIMELINE_HISTORY 7"} {
		_, _ = conn.Exec(t.Context(), command).ReadAll() // the last one fails: there is no such timeline
	}
	slots := false
	stream(t, conn, "START_REPLICATION SLOT ph1 PHYSICAL "+from, func(x *protocol.XLogData) bool {
		slots = slots || x.DataStart == protocol.InvalidLSN
		return slots && x.WALEnd >= end
	})
	conn = through.connect(t, "replication=database")
	_, err = conn.Exec(t.Context(), "CREATE_REPLICATION_SLOT tmp TEMPORARY LOGICAL pgoutput (SNAPSHOT 'nothing')").ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	stream(t, conn, "START_REPLICATION SLOT orders LOGICAL 0/0 (proto_version '2', publication_names 'p', messages 'true')",
		func(x *protocol.XLogData) bool { return len(x.Data) > 0 && x.Data[0] == 'M' })
	conn = through.connect(t, "replication=true _pq_.slotferry=1")
	conn.Frontend().Send(&pgproto3.Query{String: "SLOT_STATE"})
	if err := conn.Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
	for got := false; !got; {
		m, err := conn.ReceiveMessage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, got = m.(*pgproto3.CopyData)
	}
	_ = conn.Close(t.Context())
	stopsCleanly(t, proxy, relay, r.proxy)

	lines := inspectJSON(t, 0, file)
	seen := map[string]bool{}
	for _, l := range lines {
		seen[l.Message] = true
	}
	for _, want := range []string{"SlotMessage", "XLogData", "PrimaryKeepalive", "StandbyStatusUpdate", "HotStandbyFeedback", "ErrorResponse", "DataRow"} {
		if !seen[want] {
			t.Errorf("no %s was recorded", want)
		}
	}
	if *rewriteSessions {
		copyFile(t, file, "../../testdata/capture/session.capture")
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
