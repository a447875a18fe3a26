package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
)

// nobody is the user that slotferry runs as where the test may choose: it owns
// its state directory and nothing else.
const nobody = 65534

// securityPage is what docs/security.md tells an operator to do.
type securityPage struct {
	statements       []string // on the primary
	primary, standby []string // lines of pg_hba.conf
}

var codeBlock = regexp.MustCompile("(?s)```(\\w*)\n(.*?)```")

func readSecurityPage(t *testing.T, password string) securityPage {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	var page securityPage
	for _, block := range codeBlock.FindAllStringSubmatch(string(text), -1) {
		body := strings.NewReplacer("'...'", "'"+password+"'", "RELAY", "127.0.0.1", "HELPER", "127.0.0.1").Replace(block[2])
		lines := strings.Split(strings.TrimSpace(body), "\n")
		switch {
		case block[1] == "sql":
			page.statements = append(page.statements, lines...)
		case strings.Contains(block[2], "RELAY"):
			page.primary = lines
		default:
			page.standby = lines
		}
	}
	if len(page.statements) != 7 || len(page.primary) != 3 || len(page.standby) != 1 {
		t.Fatalf("read from docs/security.md: %+v", page)
	}
	return page
}

// TestLeastPrivileges runs with the roles, grants and lines of docs/security.md and
// nothing more, as a user that can write to its state directory alone: a slot
// becomes ready, survives a promotion, and check misses each privilege that is
// taken away.
func TestLeastPrivileges(t *testing.T) {
	t.Parallel()
	const password = "s3cr3t-of-the-page"
	page := readSecurityPage(t, password)
	inlineOnEach(t, Sidecar, func(t *testing.T, major int, mode Mode) {
		l := startLeast(t, major, mode, page, password)
		poll.Require(t, waitTime, "a protected anchor", func(ctx context.Context) (bool, string) {
			st, err := l.node.Status(ctx)
			if err != nil {
				return false, err.Error()
			}
			return st.Anchor.Proven, fmt.Sprintf("%+v; %s %s", st.Anchor, st.Reason, st.Detail)
		})
		clustertest.Exec(t, l.primary, "shop", "SELECT pg_create_logical_replication_slot('orders', 'test_decoding')")
		if err := l.node.WaitReady(t.Context(), waitTime, "orders"); err != nil {
			t.Fatal(err)
		}
		if out, status := l.check(); status != 0 || !strings.Contains(out, " 0 failed, 0 warnings") {
			t.Errorf("check: status %d\n%s", status, out)
		}
		if mode == Inline {
			l.eachIsNeeded()
		}
		if err := l.standby.Promote(t.Context()); err != nil {
			t.Fatal(err)
		}
		poll.Require(t, waitTime, "the promotion to be over", func(ctx context.Context) (bool, string) {
			st, err := l.node.Status(ctx)
			if err != nil || st.Promotion == nil {
				return false, fmt.Sprint(err)
			}
			return len(st.Promotion.Slots) == 1 && st.Promotion.Slots[0].Usable, fmt.Sprintf("%+v", st.Promotion)
		})
		clustertest.Exec(t, l.standby, "shop", "SELECT * FROM pg_logical_slot_get_changes('orders', NULL, NULL)")
		for _, proc := range []*Process{l.node.Helper, l.relay} {
			if log := proc.Log(); strings.Contains(log, password) {
				t.Errorf("the log shows the password:\n%s", log)
			}
		}
		if info, err := os.Stat(filepath.Join(l.state, "ledger.json")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("ledger: %v, %v", info, err)
		}
	})
}

// least is a primary and a standby with relay and helper that may do no more than
// they must.
type least struct {
	t                *testing.T
	primary, standby *cluster.Server
	relay            *Process
	node             *Node // the helper's
	state            string
	conninfos        [2]string // of relay and helper, for check
	binary           string
}

func startLeast(t *testing.T, major int, mode Mode, page securityPage, password string) *least {
	t.Helper()
	binary, dir := build(t), t.TempDir()
	l := &least{t: t, state: filepath.Join(dir, "state"), binary: binary}
	passfile := filepath.Join(dir, "pgpass")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(passfile, []byte("*:*:*:*:"+password+"\n"), 0o600))
	must(os.Mkdir(l.state, 0o700))
	if os.Getuid() == 0 {
		for _, path := range []string{filepath.Dir(binary), filepath.Dir(dir), dir} { // temporary directories are root's alone
			must(os.Chmod(path, 0o755))
		}
		must(os.Chown(passfile, nobody, nobody))
		must(os.Chown(l.state, nobody, nobody))
	}

	l.primary = clustertest.Primary(t, major, cluster.Config{HBA: page.primary})
	clustertest.Exec(t, l.primary, "postgres", append([]string{
		"CREATE DATABASE shop", "REVOKE CONNECT ON DATABASE shop FROM PUBLIC", "REVOKE CONNECT ON DATABASE postgres FROM PUBLIC",
	}, page.statements...)...)
	relayAddr, listen := freeAddr(t), freeAddr(t)
	conninfo := func(addr, rest string) string {
		host, port, _ := strings.Cut(addr, ":")
		return fmt.Sprintf("host=%s port=%s passfile=%s sslmode=disable %s", host, port, passfile, rest)
	}
	l.conninfos[0] = conninfo(l.primary.Addr(), "user=slotferry_relay dbname=postgres")
	l.relay = l.process("relay", "relay", "--listen", relayAddr, "--upstream", l.conninfos[0])
	must(l.relay.Start(t.Context()))

	via := listen
	if mode == Sidecar {
		via = relayAddr
	}
	l.standby = clustertest.Standby(t, l.primary, cluster.StandbyConfig{
		Name: "b", SlotName: "b", PrimaryConninfo: conninfo(via, "user=replicator") + " password=" + password, HBA: page.standby,
	})
	l.conninfos[1] = conninfo(l.standby.Addr(), "user=slotferry_helper dbname=postgres")
	args := []string{"helper", "--standby", l.conninfos[1], "--state-dir", l.state, "--advance-interval", "1s"}
	if mode == Sidecar {
		args = append(args, "--upstream", conninfo(relayAddr, "user=slotferry_helper"))
	} else {
		args = append(args, "--upstream", conninfo(relayAddr, ""), "--listen", listen)
	}
	l.node = &Node{Name: "b", Helper: l.process("helper", args...)}
	must(l.node.Helper.Start(t.Context()))
	t.Cleanup(func() {
		for _, proc := range []*Process{l.node.Helper, l.relay} {
			if err := proc.Stop(); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Logf("---- %s\n%s", proc.name, proc.Log())
			}
		}
	})
	return l
}

// process is one that runs as nobody, if the test may choose.
func (l *least) process(name string, args ...string) *Process {
	http := freeAddr(l.t)
	p := newProcess(name, l.binary, l.t.TempDir(), "http://"+http, append(args, "--http", http)...)
	if os.Getuid() == 0 {
		p.attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return p
}

// check runs slotferry check with the roles that relay and helper have.
func (l *least) check() (string, int) {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), l.binary, "check", "--upstream", l.conninfos[0], "--standby", l.conninfos[1],
		"--url", l.node.Helper.URL())
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		l.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// eachIsNeeded takes every privilege away, one at a time, until check misses it,
// and gives it back.
func (l *least) eachIsNeeded() {
	l.t.Helper()
	for _, p := range []struct{ take, give, want string }{
		{"REVOKE EXECUTE ON FUNCTION pg_log_standby_snapshot() FROM slotferry_relay",
			"GRANT EXECUTE ON FUNCTION pg_log_standby_snapshot() TO slotferry_relay", "executable: no"},
		{"ALTER ROLE slotferry_helper NOREPLICATION", "ALTER ROLE slotferry_helper REPLICATION", "REPLICATION: no"},
		{"REVOKE pg_monitor FROM slotferry_helper", "GRANT pg_monitor TO slotferry_helper", "pg_monitor: no"},
		{"REVOKE CONNECT ON DATABASE shop FROM slotferry_helper", "GRANT CONNECT ON DATABASE shop TO slotferry_helper", "CONNECT for slotferry_helper"},
	} {
		clustertest.Exec(l.t, l.primary, "postgres", p.take)
		l.untilCheck(p.take, func(out string, _ int) bool { return namesTrouble(out, p.want) })
		clustertest.Exec(l.t, l.primary, "postgres", p.give)
	}
	// All is as it was: the slot is ready again by itself.
	if _, err := l.node.WaitSlot(l.t.Context(), waitTime, "orders", decoder.StateReady, decoder.ReasonNone); err != nil {
		l.t.Fatal(err)
	}
	l.untilCheck("all is given back", func(out string, status int) bool {
		return status == 0 && strings.Contains(out, " 0 failed, 0 warnings")
	})
}

// untilCheck waits until replay has brought a change to the standby and check says
// what it should.
func (l *least) untilCheck(what string, good func(out string, status int) bool) {
	l.t.Helper()
	poll.Require(l.t, waitTime, "check after "+what, func(context.Context) (bool, string) {
		out, status := l.check()
		return good(out, status), out
	})
}

// namesTrouble reports whether check has this in a line that is not all right.
func namesTrouble(out, want string) bool {
	for line := range strings.Lines(out) {
		if strings.Contains(line, want) && (strings.HasPrefix(line, "FAIL") || strings.HasPrefix(line, "warn")) {
			return true
		}
	}
	return false
}
