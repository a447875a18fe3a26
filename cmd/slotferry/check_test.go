package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/preflight"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

// at returns the settings of findings at a level.
func at(t *testing.T, level preflight.Level, output string) []string {
	t.Helper()
	var doc checkDocument
	if err := json.Unmarshal([]byte(output), &doc); err != nil {
		t.Fatalf("%v in:\n%s", err, output)
	}
	var list []string
	for _, f := range doc.Findings {
		if f.Level == level {
			list = append(list, string(f.Side)+" "+f.Setting)
		}
	}
	return list
}

// TestCheckOfRealServers goes from a pair that is as it should be, with a helper
// running, to one where much is wrong.
func TestCheckOfRealServers(t *testing.T) {
	clustertest.EachMajor(t, func(t *testing.T, major int) {
		t.Parallel()
		primary := primaryWithSlot(t, major)
		clustertest.Exec(t, primary, "postgres",
			"CREATE ROLE ferry LOGIN REPLICATION", "GRANT pg_monitor TO ferry",
			"GRANT EXECUTE ON FUNCTION pg_log_standby_snapshot() TO ferry", "CREATE ROLE weak LOGIN")
		addr := freeAddr(t)
		standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby", Via: addr})
		asRole := func(s *cluster.Server, role string) string {
			return conninfoOf(t, s.Addr()) + " user=" + role
		}
		solo := start(t, nil, "solo", "--listen", addr, "--upstream", asRole(primary, "ferry"),
			"--standby", asRole(standby, "ferry"), "--state-dir", t.TempDir())
		solo.document(t, "an anchor", anchorLive)
		passed(t, primary)
		solo.document(t, "the slot to be ready", oneSlotReady)

		both := []string{"check", "--upstream", asRole(primary, "ferry"), "--standby", asRole(standby, "ferry"), "--url", solo.http}
		got := execute(t, nil, "", both...)
		if got.status != exitOK || got.stderr != "" || !strings.Contains(got.stdout, "1 of 1 slots ready") {
			t.Errorf("status %d, stderr %q, stdout:\n%s", got.status, got.stderr, got.stdout)
		}

		got = execute(t, nil, "", append(both, "--nagios")...)
		if got.status != nagiosOK || !strings.HasPrefix(got.stdout, "SLOTFERRY OK - 1 of 1 slots ready | failed=0;;;0 warnings=0;;;0 slots_ready=1;;;0") {
			t.Errorf("plugin: status %d, stdout:\n%s%s", got.status, got.stdout, got.stderr)
		}

		// The same through roles that may not do what is needed.
		got = execute(t, nil, "", "check", "--json", "--upstream", asRole(primary, "weak"), "--standby", asRole(standby, "weak"))
		want := []string{`standby role "weak"`, `standby role "weak"`, "standby replication=database", "standby walreceiver"}
		if failed := at(t, preflight.Fail, got.stdout); got.status != exitFailed || !slices.Equal(failed, want) {
			t.Errorf("status %d, failed %q, want %q\n%s", got.status, failed, want, got.stdout)
		}
		if warned := at(t, preflight.Warn, got.stdout); !slices.Equal(warned, []string{"upstream pg_log_standby_snapshot()"}) {
			t.Errorf("warned of %q", warned)
		}

		// The two servers the wrong way round.
		got = execute(t, nil, "", "check", "--json", "--upstream", asRole(standby, "ferry"), "--standby", asRole(primary, "ferry"))
		if failed := at(t, preflight.Fail, got.stdout); got.status != exitFailed || !slices.Contains(failed, "standby pg_is_in_recovery") {
			t.Errorf("status %d, failed %q", got.status, failed)
		}

		// Feedback off and no slot: two settings, named.
		if err := standby.SetConfs(t.Context(), map[string]string{"hot_standby_feedback": "off", "primary_slot_name": ""}); err != nil {
			t.Fatal(err)
		}
		solo.document(t, "the helper to see it", func(d *statusdoc.Document) bool { return !d.Ready })
		got = execute(t, nil, "", both...)
		for _, line := range []string{"FAIL  standby   hot_standby_feedback", "FAIL  standby   primary_slot_name", "FAIL  upstream  physical slot"} {
			if !strings.Contains(got.stdout, line) {
				t.Errorf("no line %q in:\n%s", line, got.stdout)
			}
		}
		if got.status != exitFailed {
			t.Errorf("status %d", got.status)
		}
	})
}

// TestCheckOfOldStandby checks PostgreSQL 15, which cannot decode on a standby.
func TestCheckOfOldStandby(t *testing.T) {
	primary := clustertest.Primary(t, 15, cluster.Config{})
	standby := clustertest.Standby(t, primary, cluster.StandbyConfig{SlotName: "standby"})
	got := execute(t, nil, "", "check", "--upstream", primary.Conninfo("postgres"), "--standby", standby.Conninfo("postgres"))
	if got.status != exitFailed || !strings.Contains(got.stdout, "PostgreSQL before 16 cannot decode on a standby") {
		t.Errorf("status %d, stdout:\n%s%s", got.status, got.stdout, got.stderr)
	}
}

func TestCheckReachesNobody(t *testing.T) {
	got := execute(t, nil, "", "check", "--upstream", conninfoOf(t, freeAddr(t)), "--standby", conninfoOf(t, freeAddr(t)), "--url", freeAddr(t))
	if got.status != exitUnreachable || strings.Count(got.stdout, "FAIL") != 3 {
		t.Errorf("status %d, stdout:\n%s", got.status, got.stdout)
	}
}

// TestCheckNamesWrongPassword uses a server that asks for one.
func TestCheckNamesWrongPassword(t *testing.T) {
	major := slices.Max(clustertest.Majors(t))
	primary := clustertest.Primary(t, major, cluster.Config{HBA: []string{"host all all 127.0.0.1/32 scram-sha-256"}})
	clustertest.Exec(t, primary, "postgres", "CREATE ROLE ferry LOGIN PASSWORD 'the right one'")
	base := conninfoOf(t, primary.Addr()) + " user=ferry"
	right := execute(t, nil, "", "check", "--upstream", base+" password='the right one'")
	if right.status != exitOK {
		t.Errorf("right password: status %d\n%s%s", right.status, right.stdout, right.stderr)
	}
	for _, env := range [][]string{nil, {"PGPASSWORD=hunter2hunter2"}} {
		conninfo := base
		if env == nil {
			conninfo += " password=hunter2hunter2"
		}
		for _, format := range []string{"--json=false", "--json"} {
			got := execute(t, env, "", "check", format, "--upstream", conninfo)
			all := got.stdout + got.stderr
			if got.status != exitFailed || !strings.Contains(all, "28P01") || !strings.Contains(all, "check the password") || strings.Contains(all, "hunter2") {
				t.Errorf("status %d, output:\n%s", got.status, all)
			}
		}
	}
}

// TestCheckOfARelayAloneIsNoGate: a relay that accepts is ready, and knows nothing of
// slots on the standby.
func TestCheckOfARelayAloneIsNoGate(t *testing.T) {
	alone, ready := serveDocument(t, relayDocument()), helperDocument()
	ready.Helper.Slots = ready.Helper.Slots[:1]
	ready.Judge()
	for _, test := range []struct {
		urls    []string
		status  int
		helpers int
	}{
		{[]string{alone}, exitFailed, 0},
		{[]string{alone, alone}, exitFailed, 0},
		{[]string{alone, serveDocument(t, ready)}, exitOK, 1},
	} {
		args := []string{"check", "--json"}
		for _, url := range test.urls {
			args = append(args, "--url", url)
		}
		got := execute(t, nil, "", args...)
		var doc checkDocument
		if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil {
			t.Fatal(err)
		}
		if got.status != test.status || doc.OK != (test.status == exitOK) || doc.Helpers != test.helpers {
			t.Errorf("%q: status %d, want %d: %+v", test.urls, got.status, test.status, doc)
		}
		if failed := at(t, preflight.Fail, got.stdout); slices.Contains(failed, "helper helper") != (test.helpers == 0) {
			t.Errorf("%q: failed %q", test.urls, failed)
		}
	}
	got := execute(t, nil, "", "check", "--nagios", "--url", alone)
	if got.status != nagiosCritical || !strings.HasPrefix(got.stdout, "SLOTFERRY CRITICAL - no helper answered; ") {
		t.Errorf("plugin: status %d, %s", got.status, got.stdout)
	}
	got = execute(t, nil, "", "check", "--url", alone)
	if got.status != exitFailed || strings.Contains(got.stdout, "no slots") || !strings.Contains(got.stdout, "a relay cannot know") {
		t.Errorf("status %d, stdout:\n%s", got.status, got.stdout)
	}
}

func TestCheckText(t *testing.T) {
	doc := &checkDocument{Findings: []preflight.Finding{
		{Level: preflight.OK, Side: preflight.Upstream, Setting: "wal_level", Value: "logical", Want: "logical"},
		{Level: preflight.Fail, Side: preflight.Standby, Setting: "wal_level", Value: "replica", Want: "logical", Change: "set it", Restart: true},
		{Level: preflight.Skip, Side: preflight.Helper, Setting: "x", Value: "y"},
	}, Slots: statusdoc.Counts{Ready: 2, Blocked: 1}, Helpers: 1}
	const want = `
      SERVER    SETTING    VALUE    SHOULD BE
ok    upstream  wal_level  logical  logical
FAIL  standby   wal_level  replica  logical
-     helper    x          y

1 ok, 1 failed, 0 warnings, 1 not checked
2 of 3 slots ready, 1 blocked

To do, in this order:

1. standby, wal_level (needs a restart)
   set it
`
	if got := "\n" + checkText(doc, false); got != want {
		t.Errorf("got:\n%s", got)
	}
	// Where all is well and nobody was asked about slots, it leads on.
	doc.OK, doc.Findings, doc.Helpers = true, doc.Findings[:1], 0
	if got := checkText(doc, false); strings.Contains(got, "To do") || !strings.HasSuffix(got, nextSteps) {
		t.Errorf("got:\n%s", got)
	}
	if fmt.Sprint(errNotReady, errNoneReached) == "" {
		t.Error("no text")
	}
}
