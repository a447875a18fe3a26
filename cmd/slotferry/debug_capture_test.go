package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
)

// recording is a server behind a recording proxy.
type recording struct {
	primary *cluster.Server
	proxy   *daemon
	addr    string
	file    string
}

const scramPassword = "hunter2-is-secret"

// record starts a primary with a role that logs in by SCRAM, and the proxy.
func record(t *testing.T, major int, flags ...string) *recording {
	t.Helper()
	r := &recording{addr: freeAddr(t), file: filepath.Join(t.TempDir(), "session.capture")}
	r.primary = clustertest.Primary(t, major, cluster.Config{HBA: []string{
		"host all scram 127.0.0.1/32 scram-sha-256", "host replication scram 127.0.0.1/32 scram-sha-256",
		"host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust",
	}, Settings: map[string]string{"max_prepared_transactions": "10", "wal_keep_size": "1GB", "logical_decoding_work_mem": "64kB", "track_commit_timestamp": "on"}})
	clustertest.Exec(t, r.primary, "postgres", "CREATE ROLE scram LOGIN SUPERUSER REPLICATION PASSWORD '"+scramPassword+"'",
		"CREATE EXTENSION pg_walinspect")
	r.proxy = start(t, nil, append([]string{"debug", "capture", "--listen", r.addr, "--upstream",
		r.primary.Conninfo("postgres"), "--out", r.file}, flags...)...)
	r.waitListening(t)
	return r
}

func (r *recording) waitListening(t *testing.T) {
	t.Helper()
	poll.Require(t, time.Minute, "the proxy to listen", func(context.Context) (bool, string) {
		return strings.Contains(r.proxy.log(), "relay is listening"), r.proxy.log()
	})
}

// connect opens a session through the proxy.
func (r *recording) connect(t *testing.T, settings string) *pgconn.PgConn {
	t.Helper()
	host, port, _ := strings.Cut(r.addr, ":")
	conn, err := pgconn.Connect(t.Context(), fmt.Sprintf("host=%s port=%s user=scram password=%s dbname=postgres sslmode=disable %s",
		host, port, scramPassword, settings))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// stream runs a START_REPLICATION and reads until enough says so, confirming
// what came.
func stream(t *testing.T, conn *pgconn.PgConn, command string, enough func(m *protocol.XLogData) bool) {
	t.Helper()
	send := func(m pgproto3.FrontendMessage) {
		conn.Frontend().Send(m)
		if err := conn.Frontend().Flush(); err != nil {
			t.Fatal(err)
		}
	}
	send(&pgproto3.Query{String: command})
	end, answered := protocol.LSN(1), false
	for done := false; !done || !answered; {
		message, err := conn.ReceiveMessage(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if e, ok := message.(*pgproto3.ErrorResponse); ok {
			t.Fatalf("%s: %s", command, e.Message)
		}
		data, ok := message.(*pgproto3.CopyData)
		if !ok {
			continue
		}
		var x protocol.XLogData
		switch data.Data[0] {
		case protocol.MsgXLogData:
			if err := x.Decode(data.Data[1:]); err != nil {
				t.Fatal(err)
			}
			done = enough(&x) || done
			end = max(end, x.DataStart)
		case protocol.MsgPrimaryKeepalive:
			var k protocol.PrimaryKeepalive
			if err := k.Decode(data.Data[1:]); err != nil {
				t.Fatal(err)
			}
			answered = true
		}
		now := protocol.Micros(time.Now())
		r := protocol.StandbyStatusUpdate{Write: end, Flush: end, Apply: end, SendTime: now, ReplyRequested: !answered}
		send(&pgproto3.CopyData{Data: r.Append(nil)})
		h := protocol.HotStandbyFeedback{SendTime: now}
		send(&pgproto3.CopyData{Data: h.Append(nil)})
	}
	send(&pgproto3.CopyDone{})
	for {
		message, err := conn.ReceiveMessage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := message.(*pgproto3.ReadyForQuery); ok {
			break
		}
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// workload writes WAL of as many kinds as is quickly done.
var workload = []string{
	"CREATE TABLE t (id serial PRIMARY KEY, v text, n int[], p point, r int4range, ts timestamptz DEFAULT now())",
	"ALTER TABLE t REPLICA IDENTITY FULL",
	"CREATE INDEX ON t USING hash (v)", "CREATE INDEX ON t USING gin (n)", "CREATE INDEX ON t USING gist (r)",
	"CREATE INDEX ON t USING spgist (p)", "CREATE INDEX ON t USING brin (ts)",
	"CREATE TABLE parent (id int PRIMARY KEY)", "CREATE TABLE child (id int REFERENCES parent)",
	"INSERT INTO t (v, n, p, r) SELECT md5(g::text), ARRAY[g, g % 7], point(g, g * g % 97), int4range(g, g + 5) FROM generate_series(1, 3000) g",
	"UPDATE t SET v = v || 'x' WHERE id % 3 = 0", "DELETE FROM t WHERE id % 5 = 0", "VACUUM t", "VACUUM FREEZE t",
	"INSERT INTO t (v) SELECT string_agg(md5(g::text), '') FROM generate_series(1, 4000) g",
	"INSERT INTO parent VALUES (1), (2)", "INSERT INTO child VALUES (1), (2)",
	"BEGIN", "SELECT * FROM parent FOR SHARE", "SAVEPOINT a", "SELECT * FROM parent FOR UPDATE", "ROLLBACK TO a", "COMMIT",
	"SELECT pg_logical_emit_message(true, 'a prefix', 'some content')",
	"SELECT pg_logical_emit_message(false, 'a prefix', repeat('y', 30000))",
	"BEGIN", "INSERT INTO t (v) VALUES ('prepared')", "PREPARE TRANSACTION 'gid 1'", "COMMIT PREPARED 'gid 1'",
	"BEGIN", "INSERT INTO t (v) VALUES ('prepared')", "PREPARE TRANSACTION 'gid 2'", "ROLLBACK PREPARED 'gid 2'",
	"CHECKPOINT", "UPDATE t SET v = 'after checkpoint' WHERE id % 7 = 0",
	"CREATE TYPE mood AS ENUM ('sad', 'happy')", "CREATE TABLE m (id int PRIMARY KEY, mood mood)", "INSERT INTO m VALUES (1, 'happy')",
	"BEGIN", "INSERT INTO t (v) SELECT repeat('streamed', 20) FROM generate_series(1, 3000)", "SAVEPOINT s",
	"INSERT INTO t (v) SELECT repeat('aborted', 20) FROM generate_series(1, 3000)", "ROLLBACK TO s", "COMMIT",
	"TRUNCATE m", "SELECT pg_create_restore_point('here')", "SELECT pg_switch_wal()",
	"CREATE DATABASE other", "DROP DATABASE other", "CREATE TABLE d (id int)", "DROP TABLE d",
	"REINDEX TABLE t", "ANALYZE", "SELECT pg_log_standby_snapshot()", "INSERT INTO parent VALUES (99)",
}

func (r *recording) work(t *testing.T) {
	t.Helper()
	conn, err := r.primary.Connect(t.Context(), "postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, sql := range workload {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// line is one object of --json.
type line struct {
	Connection int64          `json:"connection"`
	Direction  string         `json:"direction"`
	Offset     int64          `json:"offset"`
	Length     int64          `json:"length"`
	Message    string         `json:"message"`
	Fault      bool           `json:"fault"`
	Fields     map[string]any `json:"fields"`
}

// inspectJSON runs inspect and returns its lines.
func inspectJSON(t *testing.T, wantStatus int, args ...string) []line {
	t.Helper()
	o := execute(t, nil, "", append([]string{"debug", "inspect", "--json"}, args...)...)
	if o.status != wantStatus {
		t.Fatalf("exit status is %d, want %d:\n%s\n%.2000s", o.status, wantStatus, o.stderr, o.stdout)
	}
	var lines []line
	s := bufio.NewScanner(strings.NewReader(o.stdout))
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		d := json.NewDecoder(strings.NewReader(s.Text()))
		d.UseNumber()
		var l line
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%v in %.300s", err, s.Text())
		}
		lines = append(lines, l)
	}
	return lines
}

// walRecord is a record as pg_walinspect shows it.
type walRecord struct {
	start, xid, rmgr, kind string
	length                 int64
}

// walRecords returns the whole records in inspected XLogData.
func walRecords(lines []line) []walRecord {
	var list []walRecord
	for _, l := range lines {
		records, _ := l.Fields["records"].([]any)
		for _, r := range records {
			f := r.(map[string]any)
			if f["left"] != nil {
				continue
			}
			n, _ := f["length"].(json.Number).Int64()
			list = append(list, walRecord{f["lsn"].(string), f["xid"].(json.Number).String(), f["rmgr"].(string), f["kind"].(string), n})
		}
	}
	return list
}

// TestRecordsAreThoseOfWalinspect checks every WAL record that went through the
// proxy against what the server itself says of it, and every byte of the capture
// against the account.
func TestRecordsAreThoseOfWalinspect(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		r := record(t, major)
		begin := clustertest.Value[string](t, r.primary, "postgres", "SELECT pg_current_wal_lsn()::text")
		r.work(t)
		end, err := protocol.ParseLSN(clustertest.Value[string](t, r.primary, "postgres", "SELECT pg_current_wal_flush_lsn()::text"))
		if err != nil {
			t.Fatal(err)
		}
		from := clustertest.Value[string](t, r.primary, "postgres",
			"SELECT (pg_lsn('0/0') + (floor((pg_lsn '"+begin+"' - pg_lsn '0/0') / 16777216) * 16777216)::numeric)::text")
		conn := r.connect(t, "replication=true")
		if _, err := conn.Exec(t.Context(), "IDENTIFY_SYSTEM").ReadAll(); err != nil {
			t.Fatal(err)
		}
		stream(t, conn, "START_REPLICATION PHYSICAL "+from, func(x *protocol.XLogData) bool {
			return x.DataStart+protocol.LSN(len(x.Data)) >= end
		})
		stopsCleanly(t, r.proxy)

		lines := inspectJSON(t, 0, r.file)
		got := walRecords(lines)
		if len(got) < 1000 {
			t.Fatalf("%d records were found", len(got))
		}
		last := got[len(got)-1].start
		db, err := r.primary.Connect(t.Context(), "postgres")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close(t.Context())
		rows, err := db.Query(t.Context(), `SELECT start_lsn::text, xid::text, resource_manager, record_type, record_length
			FROM pg_get_wal_records_info($1::pg_lsn, pg_current_wal_flush_lsn()) WHERE start_lsn >= $2::pg_lsn AND start_lsn <= $3::pg_lsn`, got[0].start, got[0].start, last)
		if err != nil {
			t.Fatal(err)
		}
		var want []walRecord
		for rows.Next() {
			var w walRecord
			if err := rows.Scan(&w.start, &w.xid, &w.rmgr, &w.kind, &w.length); err != nil {
				t.Fatal(err)
			}
			want = append(want, w)
		}
		if rows.Err() != nil {
			t.Fatal(rows.Err())
		}
		kinds := map[string]bool{}
		for _, w := range want {
			kinds[w.rmgr+" "+w.kind] = true
		}
		t.Logf("%d records of %d kinds", len(want), len(kinds))
		if i := firstDifference(got, want); i >= 0 {
			t.Fatalf("record %d of %d (%d): got %v, want %v", i, len(got), len(want), nth(got, i), nth(want, i))
		}
		balanced(t, r.file)
		noSecrets(t, r.file, lines)
	})
}

func firstDifference[T comparable](a, b []T) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}

func nth[T any](list []T, i int) any {
	if i < len(list) {
		return list[i]
	}
	return "none"
}

// balanced checks that every byte of a file is accounted for.
func balanced(t *testing.T, file string) {
	t.Helper()
	o := execute(t, nil, "", "debug", "inspect", "--summary", "--json", file)
	var doc struct {
		Input map[string]int64 `json:"input"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &doc); err != nil {
		t.Fatalf("%v: %s%s", err, o.stdout, o.stderr)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	in := doc.Input
	parts := in["file_header"] + in["framing"] + in["packet_headers"] + in["other_packets"] + in["retransmitted"] + in["damaged"] +
		in["torn_tail"] + in["stream"]
	stream := in["messages"] + in["gaps"] + in["unfinished"] + in["encrypted"]
	if in["total"] != info.Size() || parts != info.Size() || in["stream"] != stream {
		t.Errorf("the account of %d bytes does not balance: %v", info.Size(), in)
	}
}

// noSecrets checks that no password is in the file or the output.
func noSecrets(t *testing.T, file string, lines []line) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), scramPassword) {
		t.Error("the password is in the capture")
	}
	logins := 0
	for _, l := range lines {
		data := fmt.Sprint(l.Fields["data"])
		if l.Message == "SASLResponse" {
			logins++
			if _, proof, _ := strings.Cut(data, ",p="); strings.Trim(proof, "*") != "" || proof == "" {
				t.Errorf("the proof of SCRAM is not masked: %s", data)
			}
		}
		if l.Message == "AuthenticationSASLFinal" && strings.Trim(data, "v=*") != "" {
			t.Errorf("the server's signature is not masked: %s", data)
		}
	}
	if logins == 0 {
		t.Error("no login was recorded")
	}
}

// TestInspectLogical records a stream of pgoutput, streaming and two-phase.
func TestInspectLogical(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		r := record(t, major)
		clustertest.Exec(t, r.primary, "postgres", "CREATE PUBLICATION p FOR ALL TABLES")
		conn := r.connect(t, "replication=database")
		if _, err := conn.Exec(t.Context(), "CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL pgoutput TWO_PHASE").ReadAll(); err != nil {
			t.Fatal(err)
		}
		r.work(t)
		end, err := protocol.ParseLSN(clustertest.Value[string](t, r.primary, "postgres", "SELECT pg_current_wal_flush_lsn()::text"))
		if err != nil {
			t.Fatal(err)
		}
		stream(t, conn, "START_REPLICATION SLOT s LOGICAL 0/0 (proto_version '4', publication_names 'p', streaming 'parallel', two_phase 'true', messages 'true')",
			func(x *protocol.XLogData) bool {
				return x.WALEnd > 0 && len(x.Data) > 0 && x.Data[0] == 'C' && x.DataStart >= end-5000
			})
		backup := r.connect(t, "replication=true")
		if _, err := backup.CopyTo(t.Context(), io.Discard, "BASE_BACKUP (LABEL 'l', PROGRESS true, CHECKPOINT 'fast', MANIFEST 'yes')"); err != nil {
			t.Fatal(err)
		}
		_ = backup.Close(t.Context())
		stopsCleanly(t, r.proxy)

		lines := inspectJSON(t, 0, r.file)
		seen := map[string]int{}
		for _, l := range lines {
			seen[l.Message]++
			if what, ok := l.Fields["pgoutput"].(string); ok {
				seen[what]++
			}
			if l.Fields["note"] != nil || l.Fields["output"] != nil {
				t.Errorf("not understood: %v", l)
			}
		}
		for _, want := range []string{"Begin", "Commit", "Relation", "Insert", "Update", "Delete", "Truncate", "Message", "BeginPrepare",
			"Prepare", "CommitPrepared", "RollbackPrepared", "StreamStart", "StreamStop", "StreamCommit", "StreamAbort", "Type",
			"BackupArchive", "BackupManifest", "BackupData", "BackupProgress", "CopyOutResponse", "CopyBothResponse"} {
			if seen[want] == 0 {
				t.Errorf("no %s was seen: %v", want, seen)
			}
		}
		byName := slices.IndexFunc(lines, func(l line) bool { return l.Fields["pgoutput"] == "Insert" && l.Fields["relation"] == "public.t" })
		if byName < 0 {
			t.Error("no Insert names its table")
		}
		balanced(t, r.file)
	})
}
