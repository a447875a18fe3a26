package rig

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
)

// inlineOnEach runs a test inline on every major, and in another mode on the
// newest: the way to the relay does not depend on the server's version.
func inlineOnEach(t *testing.T, other Mode, test func(t *testing.T, major int, mode Mode)) {
	t.Helper()
	t.Run(string(Inline), func(t *testing.T) {
		clustertest.EachMajorParallel(t, func(t *testing.T, major int) { test(t, major, Inline) })
	})
	t.Run(string(other), func(t *testing.T) { test(t, slices.Max(clustertest.Majors(t)), other) })
}

// reflag gives a process another value for one of its flags, from its next start
// on.
func reflag(proc *Process, flag, value string) {
	i := slices.Index(proc.args, flag)
	if i < 0 {
		proc.args = append(proc.args, flag, value)
		return
	}
	proc.args[i+1] = value
}

// held waits until the standby's helper says that reason holds up every slot, and
// checks that it names what to change, in its state and in its log.
func (p *testPair) held(reason decoder.Reason, names string) {
	p.t.Helper()
	var hint string
	p.until(fmt.Sprintf("all slots to be held up by %s", reason), func(ctx context.Context) (bool, string) {
		st, err := p.B.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		hint = st.Hint
		for _, s := range st.Slots {
			if s.State == decoder.StateReady {
				return false, fmt.Sprintf("%s is ready", s.Name)
			}
		}
		return st.Reason == reason, fmt.Sprintf("%q %s", st.Reason, st.Detail)
	})
	p.hinted(reason, hint, names)
}

// anchorHeld waits until reason is why there is no anchor.
func (p *testPair) anchorHeld(reason decoder.Reason, names string) {
	p.t.Helper()
	p.until(fmt.Sprintf("no anchor because of %s", reason), func(ctx context.Context) (bool, string) {
		st, err := p.B.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		return st.Anchor.Reason == reason, fmt.Sprintf("%+v, all: %q %s", st.Anchor, st.Reason, st.Detail)
	})
	p.hinted(reason, reason.Hint(), names)
}

// slotHeld waits until a slot is blocked for a reason, while its subscriber goes
// on.
func (p *testPair) slotHeld(slot string, reason decoder.Reason, names string) {
	p.t.Helper()
	var hint string
	p.until(fmt.Sprintf("%s to be blocked: %s", slot, reason), func(ctx context.Context) (bool, string) {
		// Only from its own database; elsewhere it is young enough.
		_ = p.A.Server.Exec(ctx, "postgres", fmt.Sprintf("SELECT pg_replication_slot_advance('%s', pg_current_wal_flush_lsn())", slot))
		st, err := p.B.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		for _, s := range st.Slots {
			if s.Name == slot {
				hint = s.Hint
				return s.State == decoder.StateBlocked && s.Reason == reason, fmt.Sprintf("%+v, anchor %+v", s, st.Anchor)
			}
		}
		return false, "not there"
	})
	p.hinted(reason, hint, names)
}

// hinted checks that a hint names what to change and stands in the log.
func (p *testPair) hinted(reason decoder.Reason, hint, names string) {
	p.t.Helper()
	if !strings.Contains(hint, names) {
		p.t.Errorf("hint of %s is %q, it does not name %q", reason, hint, names)
	}
	p.until("the log to say "+string(reason), func(context.Context) (bool, string) {
		log := p.B.Helper.Log()
		return strings.Contains(log, string(reason)) && strings.Contains(log, hint), "not there"
	})
}

// flows checks that WAL still reaches the standby.
func (p *testPair) flows() {
	p.t.Helper()
	clustertest.Exec(p.t, p.A.Server, "postgres", "CREATE TABLE IF NOT EXISTS flow (n serial)", "INSERT INTO flow DEFAULT VALUES")
	if err := p.A.Server.WaitForStandby(p.t.Context(), p.B.Server); err != nil {
		p.t.Fatal(err)
	}
}

// recovers waits until a slot is ready while its subscriber goes on.
func (p *testPair) recovers(slot string) {
	p.t.Helper()
	p.recoversIn("postgres", slot)
}

// recoversIn is recovers for a slot of another database.
func (p *testPair) recoversIn(dbname, slot string) {
	p.t.Helper()
	p.until(slot+" to be ready while its subscriber goes on", func(ctx context.Context) (bool, string) {
		err := p.A.Server.Exec(ctx, dbname, "CREATE TABLE IF NOT EXISTS flow (n serial)", "INSERT INTO flow DEFAULT VALUES",
			fmt.Sprintf("SELECT pg_replication_slot_advance('%s', pg_current_wal_flush_lsn())", slot))
		if err != nil {
			return false, err.Error()
		}
		st, err := p.B.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		for _, s := range st.Slots {
			if s.Name == slot {
				return s.State == decoder.StateReady, fmt.Sprintf("%+v, anchor %+v", s, st.Anchor)
			}
		}
		return false, fmt.Sprintf("not there; %q %s, anchor %+v", st.Reason, st.Detail, st.Anchor)
	})
}

// sameProcesses notes which processes run; check fails the test if one of them has
// ended since.
func (p *testPair) sameProcesses() (check func()) {
	pids := func() (list []int) {
		for _, proc := range []*Process{p.A.Relay, p.B.Helper} {
			if proc != nil && proc.Running() {
				list = append(list, proc.cmd.Process.Pid)
			}
		}
		return list
	}
	before := pids()
	return func() {
		p.t.Helper()
		if now := pids(); !slices.Equal(now, before) {
			p.t.Errorf("processes are %v, were %v: one has ended", now, before)
		}
	}
}

func (p *testPair) set(s *cluster.Server, name, value string) {
	p.t.Helper()
	if err := s.SetConf(p.t.Context(), name, value); err != nil {
		p.t.Fatal(err)
	}
}

// as makes a role with just what the helper needs, and lets the standby's helper
// use it.
func (p *testPair) as(role string) {
	p.t.Helper()
	clustertest.Exec(p.t, p.A.Server, "postgres", fmt.Sprintf("CREATE ROLE %s LOGIN REPLICATION", role),
		fmt.Sprintf("GRANT pg_monitor TO %s", role))
	p.flows()
	if err := p.B.Helper.Stop(); err != nil {
		p.t.Fatal(err)
	}
	reflag(p.B.Helper, "--standby", fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=postgres", p.B.Server.Port(), role))
	if err := p.B.Helper.Start(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}
