package decoder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/protocol"
)

// witnesses are temporary slots on the primary, one of each plugin in each
// database, made before there is any load. They are not ferried, being temporary,
// and what they saw is taken from time to time, so that they do not keep catalog
// rows from vacuum that slots of the standby need.
type witnesses struct {
	conns map[string]*pgx.Conn // by database
	seen  map[slotSpec]decoded // by database and plugin, with the witness's name
}

func startWitnesses(t *testing.T, server *cluster.Server) *witnesses {
	t.Helper()
	w := &witnesses{map[string]*pgx.Conn{}, map[slotSpec]decoded{}}
	for _, db := range digestDatabases {
		conn, err := server.Connect(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		w.conns[db] = conn
		for _, plugin := range digestPlugins {
			s := witness(db, plugin)
			if _, err := conn.Exec(t.Context(), "SELECT pg_create_logical_replication_slot($1, $2, true)", s.name, plugin); err != nil {
				t.Fatal(err)
			}
			w.seen[s] = decoded{}
		}
	}
	return w
}

func witness(database, plugin string) slotSpec {
	return slotSpec{fmt.Sprintf("witness_%d_%s", slices.Index(digestDatabases, database), plugin), database, plugin}
}

// take decodes what has come since the last time.
func (w *witnesses) take(t *testing.T) {
	t.Helper()
	for s, seen := range w.seen {
		maps.Copy(seen, decode(t, w.conns[s.database], s, "get"))
	}
}

// saw is what the witness saw that is to a slot's database and plugin.
func (w *witnesses) saw(s slotSpec) decoded { return w.seen[witness(s.database, s.plugin)] }

// peek decodes all that a slot would send.
func peek(t *testing.T, server *cluster.Server, s slotSpec) decoded {
	t.Helper()
	conn, err := server.Connect(t.Context(), s.database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	return decode(t, conn, s, "peek")
}

// decoded is what a slot sends, by transaction.
type decoded map[string]transaction

type transaction struct {
	end     protocol.LSN // of its commit record
	changes []byte
}

func (tx transaction) digest() string {
	sum := sha256.Sum256(tx.changes)
	return hex.EncodeToString(sum[:8])
}

// decode gets what a slot would send, or peeks at it. pgoutput's Relation and Type
// messages are left out: they are sent once a session, so where they stand depends
// on where it began.
func decode(t *testing.T, conn *pgx.Conn, s slotSpec, function string) decoded {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT lsn::text, xid::text, data FROM "+changesQuery(s, function, "NULL"))
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	defer rows.Close()
	all := decoded{}
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
		// The last row of a transaction stands at the end of its commit record.
		all[xid] = transaction{end: at, changes: append(all[xid].changes, data...)}
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return all
}

// between keeps the transactions that end after one position and not after another.
func (d decoded) between(after, upTo protocol.LSN) decoded {
	kept := decoded{}
	for xid, tx := range d {
		if tx.end > after && tx.end <= upTo {
			kept[xid] = tx
		}
	}
	return kept
}

// compare fails for each transaction that is not the same in both.
func (d decoded) compare(t *testing.T, slot string, got decoded) {
	t.Helper()
	for xid, want := range d {
		tx, ok := got[xid]
		switch {
		case !ok:
			t.Errorf("%s: transaction %s, which ends at %v, is missing", slot, xid, want.end)
		case tx.digest() != want.digest():
			t.Errorf("%s: transaction %s, which ends at %v, has digest %s, the witness's %s:\n%q\n%q",
				slot, xid, want.end, tx.digest(), want.digest(), tx.changes, want.changes)
		}
	}
	for xid, tx := range got {
		if _, ok := d[xid]; !ok {
			t.Errorf("%s: transaction %s, which ends at %v, is not the witness's: %q", slot, xid, tx.end, tx.changes)
		}
	}
}
