package rig

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/slotferry/slotferry/internal/cluster/clustertest"
)

// Names of databases that need quotes in SQL, in a conninfo or in a replication
// command: slots of all of them are ferried, and no server sees a malformed
// command.
func TestDatabaseNamesNeedQuotes(t *testing.T) {
	t.Parallel()
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		p := newTestPair(t, major, Inline)
		p.waitAnchor(p.B)
		names := []string{"a b", "q'uote", `dq"uote`, `back\slash`, "Ünï", "a=b", strings.Repeat("n", 63)}
		for i, name := range names {
			clustertest.Exec(t, p.A.Server, "postgres", "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
			clustertest.Exec(t, p.A.Server, name, fmt.Sprintf("SELECT pg_create_logical_replication_slot('s%d', 'test_decoding')", i))
		}
		for i, name := range names {
			p.recoversIn(name, fmt.Sprintf("s%d", i))
			got := clustertest.Value[string](t, p.B.Server, "postgres",
				"SELECT database FROM pg_replication_slots WHERE slot_name = $1", fmt.Sprintf("s%d", i))
			if got != name {
				t.Errorf("slot s%d is of database %q on the standby, want %q", i, got, name)
			}
		}
		for _, n := range []*Node{p.A, p.B} {
			for _, wrong := range []string{"syntax error", "extended query protocol not supported", "invalid message"} {
				if strings.Contains(n.Server.Log(), wrong) {
					t.Errorf("log of %s has %q", n.Name, wrong)
				}
			}
		}
	})
}
