package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
)

// What is wrong on the servers is a state that names the setting and the cure; WAL
// flows all the time, slots that are not concerned stay ready, and when the cause
// is removed the state clears without a restart.
func TestWrongSettingsAreNamed(t *testing.T) {
	t.Parallel()
	clustertest.EachMajorParallel(t, func(t *testing.T, major int) {
		p := newTestPair(t, major, Inline)
		p.as("ferry")
		clustertest.Exec(t, p.A.Server, "postgres", "CREATE DATABASE closed")
		p.waitAnchor(p.B)
		p.createSlot(p.A, "s")
		p.waitReady(p.B, "s")
		same := p.sameProcesses()
		run := func(name string, test func(t *testing.T, p *testPair)) {
			ok := t.Run(name, func(t *testing.T) {
				p := &testPair{Pair: p.Pair, t: t}
				p.waitAnchor(p.B)
				test(t, p)
				p.flows()
			})
			if !ok {
				t.FailNow() // what follows begins where this ends
			}
		}
		run("hot_standby_feedback is off", func(t *testing.T, p *testPair) {
			p.set(p.B.Server, "hot_standby_feedback", "off")
			p.slotHeld("s", decoder.ReasonFeedbackOff, "hot_standby_feedback=on")
			p.flows()
			p.set(p.B.Server, "hot_standby_feedback", "on")
			p.recovers("s")
		})
		run("primary_slot_name is empty", func(t *testing.T, p *testPair) {
			p.set(p.B.Server, "primary_slot_name", "")
			p.slotHeld("s", decoder.ReasonNoPhysicalSlot, "primary_slot_name")
			p.flows()
			p.set(p.B.Server, "primary_slot_name", "b")
			p.recovers("s")
		})
		run("primary_slot_name names no slot", func(t *testing.T, p *testPair) {
			p.set(p.B.Server, "primary_slot_name", "nosuch")
			p.held(decoder.ReasonPhysicalMissing, "primary_slot_name")
			p.set(p.B.Server, "primary_slot_name", "b")
			p.recovers("s")
		})
		run("the plugin is missing on the standby", pluginMissing)
		run("the database refuses the role", databaseRefuses)
		run("the role is without REPLICATION", func(t *testing.T, p *testPair) {
			clustertest.Exec(t, p.A.Server, "postgres", "ALTER ROLE ferry NOREPLICATION")
			p.flows()
			p.createSlot(p.A, "norepl")
			p.slotHeld("norepl", decoder.ReasonPrivilege, "REPLICATION")
			clustertest.Exec(t, p.A.Server, "postgres", "ALTER ROLE ferry REPLICATION")
			p.recovers("norepl")
			p.recovers("s")
		})
		run("the role is without pg_monitor", func(t *testing.T, p *testPair) {
			clustertest.Exec(t, p.A.Server, "postgres", "REVOKE pg_monitor FROM ferry")
			p.held(decoder.ReasonPrivilege, "pg_monitor")
			p.flows()
			clustertest.Exec(t, p.A.Server, "postgres", "GRANT pg_monitor TO ferry")
			p.recovers("s")
		})
		run("max_replication_slots is used up on the standby", slotsUsedUp)
		run("the state directory cannot be written", stateDirBroken)
		same()
	})
}

func pluginMissing(t *testing.T, p *testPair) {
	// pgoutput is there, test_decoding is not.
	lib := filepath.Join(p.B.Server.DataDir(), "plugins")
	if err := os.Mkdir(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	pkglib := clustertest.Value[string](t, p.A.Server, "postgres", "SELECT setting FROM pg_config() WHERE name = 'PKGLIBDIR'")
	if err := os.Symlink(filepath.Join(pkglib, "pgoutput.so"), filepath.Join(lib, "pgoutput.so")); err != nil {
		t.Fatal(err)
	}
	p.set(p.B.Server, "dynamic_library_path", lib)
	p.createSlot(p.A, "plug")
	clustertest.Exec(t, p.A.Server, "postgres", "SELECT pg_create_logical_replication_slot('out', 'pgoutput')")
	p.slotHeld("plug", decoder.ReasonPluginMissing, "plugin")
	p.flows()
	p.recovers("out")
	p.set(p.B.Server, "dynamic_library_path", "$libdir")
	p.recovers("plug")
}

func databaseRefuses(t *testing.T, p *testPair) {
	for i, c := range []struct{ name, refuse, allow string }{
		{"by connection limit", "ALTER DATABASE closed CONNECTION LIMIT 0", "ALTER DATABASE closed CONNECTION LIMIT -1"},
		{"by privilege", "REVOKE CONNECT ON DATABASE closed FROM public", "GRANT CONNECT ON DATABASE closed TO public"},
		{"by pg_hba.conf", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &testPair{Pair: p.Pair, t: t}
			hba := func(lines ...string) {
				if err := p.B.Server.SetHBA(t.Context(), lines...); err != nil {
					t.Fatal(err)
				}
			}
			if c.refuse == "" {
				hba("host closed ferry 127.0.0.1/32 reject", "host all all 127.0.0.1/32 trust")
			} else {
				clustertest.Exec(t, p.A.Server, "postgres", c.refuse)
			}
			p.flows()
			// The helper keeps sessions open that it got before.
			clustertest.Exec(t, p.B.Server, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'closed'")
			slot := fmt.Sprintf("closed%d", i)
			clustertest.Exec(t, p.A.Server, "closed", fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'test_decoding')", slot))
			p.slotHeld(slot, decoder.ReasonDatabaseRefused, "connect to the slot's database")
			p.recovers("s")
			if c.refuse == "" {
				hba()
			} else {
				clustertest.Exec(t, p.A.Server, "postgres", c.allow)
			}
			p.waitReady(p.B, slot)
			clustertest.Exec(t, p.A.Server, "closed", fmt.Sprintf("SELECT pg_drop_replication_slot('%s')", slot))
			p.until("the slot to go", func(context.Context) (bool, string) { return !exists(t, p.B, slot), "there" })
		})
	}
}

func slotsUsedUp(t *testing.T, p *testPair) {
	clustertest.Exec(t, p.B.Server, "postgres", `SELECT pg_create_physical_replication_slot('filler' || g) FROM generate_series(1,
		current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots)::int) g`)
	p.createSlot(p.A, "full")
	p.slotHeld("full", decoder.ReasonSlotsExhausted, "max_replication_slots")
	p.flows()
	p.recovers("s")
	clustertest.Exec(t, p.B.Server, "postgres", `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
		WHERE slot_name LIKE 'filler%'`)
	p.recovers("full")
}

// stateDirBroken puts a file where the directory was: even root cannot write there.
func stateDirBroken(t *testing.T, p *testPair) {
	dir := filepath.Join(p.cfg.Dir, "b-state")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Rename(dir, dir+".away"))
	must(os.WriteFile(dir, nil, 0o600))
	p.createSlot(p.A, "unwritten")
	p.slotHeld("unwritten", decoder.ReasonLedger, "--state-dir")
	p.flows()
	must(os.Remove(dir))
	must(os.Rename(dir+".away", dir))
	p.recovers("unwritten")
	p.recovers("s")
}
