package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/slotcatalog"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

func logical(name string) slotcatalog.Slot {
	return slotcatalog.Slot{SlotState: protocol.SlotState{Name: name, Database: "shop", Plugin: "pgoutput"}}
}

// goodPair are two servers where nothing is wrong. The tests spoil them.
func goodPair() (upstream, standby *Server) {
	yes := true
	settings := map[string]string{
		"wal_level": "logical", "max_wal_senders": "10", "max_replication_slots": "10", "hot_standby_feedback": "on",
		"wal_receiver_status_interval": "10", "primary_slot_name": "", "recovery_min_apply_delay": "0",
		"sync_replication_slots": "off", "idle_replication_slot_timeout": "0",
	}
	role := Role{Name: "ferry", Replication: true, ReadAllStats: true, ReadAllSettings: true}
	physical := slotcatalog.Slot{SlotState: protocol.SlotState{Name: "db2", Active: true}, Physical: true, Xmin: 750}
	upstream = &Server{
		Address: "db1:5432", Encryption: Encryption{TLS: "TLS 1.3"}, VersionNum: 180004, Version: "18.4", SystemIdentifier: 7, Settings: maps.Clone(settings), WalSenders: 1,
		Role: role, CanLogSnapshot: &yes, Slots: []slotcatalog.Slot{physical, logical("orders")},
	}
	settings["primary_slot_name"] = "db2"
	standby = &Server{
		Address: "db2:5432", Encryption: Encryption{Local: true}, VersionNum: 180004, Version: "18.4", InRecovery: true, SystemIdentifier: 7, Settings: settings,
		Role: role, CanLogSnapshot: &yes, WalReceiver: &WalReceiver{Status: "streaming", SlotName: "db2", Sender: "relay:6432"},
	}
	return upstream, standby
}

func TestNothingWrong(t *testing.T) {
	upstream, standby := goodPair()
	for _, f := range Check(upstream, standby) {
		if f.Level != OK || f.Change != "" || f.Restart || f.Setting == "" || f.Value == "" || f.Want == "" {
			t.Errorf("%+v", f)
		}
	}
	if got := Check(nil, nil); len(got) != 0 {
		t.Errorf("Check of nothing found %v", got)
	}
	if len(Check(upstream, nil)) == 0 || len(Check(nil, standby)) == 0 {
		t.Error("one server alone gives no finding")
	}
}

// TestWhatIsWrong spoils one thing at a time. All findings that are then not ok
// are in want, each as level, side, setting and value.
func TestWhatIsWrong(t *testing.T) {
	no := false
	for _, test := range []struct {
		name  string
		spoil func(upstream, standby *Server)
		want  []string
		cure  string // in the change of the first
	}{
		{"upstream wal_level", func(u, _ *Server) { u.Settings["wal_level"] = "replica" },
			[]string{"fail upstream wal_level: replica"}, "ALTER SYSTEM SET wal_level = 'logical'"},
		{"upstream too old", func(u, s *Server) { u.VersionNum, u.Version = 120022, "12.22" },
			[]string{"fail upstream server_version: 12.22", "fail standby server_version: 18.4"}, "upgrade"},
		{"upstream a standby", func(u, _ *Server) { u.InRecovery = true },
			[]string{"warn upstream pg_is_in_recovery: yes", "skip upstream pg_log_standby_snapshot(): a standby cannot"}, "--helper-url"},
		{"no wal sender left", func(u, s *Server) { u.WalSenders = 10; u.Slots[0].Active = false; s.WalReceiver = nil },
			[]string{"fail upstream max_wal_senders: 10, 10 in use", `fail upstream physical slot "db2": not active`, "fail standby walreceiver: none"},
			"max_wal_senders = 14"},
		{"no wal sender left, but the standby has one", func(u, s *Server) { u.WalSenders = 10 }, nil, ""},
		{"no slot left upstream", func(u, _ *Server) { u.Settings["max_replication_slots"] = "2" },
			[]string{"warn upstream max_replication_slots: 2, 2 in use"}, "max_replication_slots = 6"},
		{"setting not known", func(u, _ *Server) { delete(u.Settings, "max_wal_senders") },
			[]string{"skip upstream max_wal_senders: not known"}, ""},
		{"two clusters", func(u, _ *Server) { u.SystemIdentifier = 8 }, []string{"fail upstream system identifier: 8"}, "two clusters"},
		{"system identifier not known", func(u, _ *Server) { u.SystemIdentifier = 0 },
			[]string{"skip upstream system identifier: not known"}, ""},
		{"no physical slot named", func(_, s *Server) { s.Settings["primary_slot_name"] = "" },
			[]string{"fail upstream physical slot: none named by the standby", "fail standby primary_slot_name: empty"},
			"pg_create_physical_replication_slot"},
		{"physical slot missing", func(u, _ *Server) { u.Slots = u.Slots[1:] },
			[]string{`fail upstream physical slot "db2": missing`}, "pg_create_physical_replication_slot('db2', true)"},
		{"physical slot is logical", func(u, _ *Server) { u.Slots[0].Physical = false; u.Slots[0].Plugin = "pgoutput" },
			[]string{`fail upstream physical slot "db2": a logical slot`}, "another name"},
		{"physical slot temporary", func(u, _ *Server) { u.Slots[0].Temporary = true },
			[]string{`fail upstream physical slot "db2": temporary`}, ""},
		{"physical slot lost", func(u, _ *Server) { u.Slots[0].WALStatus = "lost" },
			[]string{`fail upstream physical slot "db2": wal_status lost`}, ""},
		{"physical slot not active", func(u, _ *Server) { u.Slots[0].Active = false },
			[]string{`fail upstream physical slot "db2": not active`}, "primary_conninfo"},
		{"no feedback yet", func(u, _ *Server) { u.Slots[0].Xmin = 0 },
			[]string{`fail upstream physical slot "db2": active, without xmin`}, "hot_standby_feedback"},
		{"no snapshots", func(u, _ *Server) { u.CanLogSnapshot = &no },
			[]string{"warn upstream pg_log_standby_snapshot(): executable: no"}, `TO "ferry"`},
		{"no such function", func(u, _ *Server) { u.CanLogSnapshot = nil },
			[]string{"skip upstream pg_log_standby_snapshot(): not in 18.4"}, ""},
		{"slot invalid", func(u, _ *Server) { u.Slots[1].InvalidationReason = "wal_removed" },
			[]string{`fail upstream logical slot "orders": invalid: wal_removed`}, "drop it"},
		{"slot temporary", func(u, _ *Server) { u.Slots[1].Temporary = true },
			[]string{`skip upstream logical slot "orders": temporary: ends with its session`}, ""},
		{"slot two_phase", func(u, _ *Server) { u.Slots[1].TwoPhase = true }, nil, ""},
		{"slot two_phase of another plugin", func(u, s *Server) {
			u.Slots[1].TwoPhase, u.Slots[1].Plugin, s.VersionNum, u.VersionNum = true, "wal2json", 170010, 170010
		}, []string{
			`warn upstream logical slot "orders": two_phase: PostgreSQL 17 can set it for pgoutput only`,
			"skip standby output plugins: wal2json",
		}, "without two_phase"},
		{"table sync", func(u, _ *Server) { u.Slots = append(u.Slots, logical("pg_16394_sync_16385_7394666715149055164")) },
			[]string{`skip upstream logical slot "pg_16394_sync_16385_7394666715149055164": table synchronization: the table with OID 16385 of the subscription with OID 16394 on the subscriber is copied again after a failover`}, ""},
		{"slot sync has it", func(u, s *Server) { u.Slots[1].Failover = true; s.Settings["sync_replication_slots"] = "on" },
			[]string{`skip upstream logical slot "orders": failover: left to the standby's slot sync worker`, "warn standby sync_replication_slots: on"}, ""},
		{"slot sync has it already", func(_, s *Server) {
			slot := logical("orders")
			slot.Synced = true
			s.Slots = append(s.Slots, slot)
		}, []string{`skip upstream logical slot "orders": failover: left to the standby's slot sync worker`}, ""},
		// Below a standby nobody syncs slots, and slotferry does: they need room.
		{"cascade, slots that slot sync has put in the middle", func(u, s *Server) {
			u.InRecovery, u.Slots[1].Failover, u.Slots[1].Synced = true, true, true
			s.Settings["sync_replication_slots"], s.Settings["max_replication_slots"] = "on", "1"
		}, []string{
			"warn upstream pg_is_in_recovery: yes", "skip upstream pg_log_standby_snapshot(): a standby cannot",
			"fail standby max_replication_slots: 1, 0 in use", "warn standby sync_replication_slots: on",
		}, "--helper-url"},
		{"somebody's temporary slot is not the anchor", func(_, s *Server) {
			s.Settings["max_replication_slots"], s.Settings["max_wal_senders"], s.WalSenders = "2", "2", 1
			s.Slots = []slotcatalog.Slot{{SlotState: protocol.SlotState{Name: "pg_dumpers", Active: true}, Temporary: true}}
		}, []string{"fail standby max_replication_slots: 2, 1 in use", "fail standby max_wal_senders: 2, 1 in use"}, "max_replication_slots"},
		{"failover, nobody syncs", func(u, s *Server) { u.Slots[1].Failover = true }, nil, ""},

		{"standby too old", func(u, s *Server) {
			for _, server := range []*Server{u, s} {
				server.VersionNum, server.Version = 150018, "15.18"
				delete(server.Settings, "sync_replication_slots")
				delete(server.Settings, "idle_replication_slot_timeout")
			}
			u.CanLogSnapshot = nil
		}, []string{"skip upstream pg_log_standby_snapshot(): not in 15.18", "fail standby server_version: 15.18"}, ""},
		{"other major", func(_, s *Server) { s.VersionNum, s.Version = 170010, "17.10" }, []string{"fail standby server_version: 17.10"}, "same major"},
		{"not a standby", func(_, s *Server) { s.InRecovery = false }, []string{"fail standby pg_is_in_recovery: no"}, "--standby"},
		{"standby wal_level", func(_, s *Server) { s.Settings["wal_level"] = "replica" },
			[]string{"fail standby wal_level: replica"}, "wal_level = 'logical'"},
		{"feedback off", func(_, s *Server) { s.Settings["hot_standby_feedback"] = "off" },
			[]string{"fail standby hot_standby_feedback: off"}, "pg_reload_conf"},
		{"no status interval", func(_, s *Server) { s.Settings["wal_receiver_status_interval"] = "0" },
			[]string{"fail standby wal_receiver_status_interval: 0 s"}, "pg_reload_conf"},
		{"no room for slots", func(_, s *Server) { s.Settings["max_replication_slots"] = "1" },
			[]string{"fail standby max_replication_slots: 1, 0 in use"}, "max_replication_slots = 6"},
		{"room enough when they are here", func(_, s *Server) {
			s.Settings["max_replication_slots"] = "2"
			s.Slots = []slotcatalog.Slot{logical("orders"), {SlotState: protocol.SlotState{Name: "slotferry_anchor_1"}, Temporary: true}}
		}, nil, ""},
		{"one wal sender for the helper", func(_, s *Server) { s.Settings["max_wal_senders"] = "1" },
			[]string{"fail standby max_wal_senders: 1, 0 in use"}, "max_wal_senders"},
		{"two wal senders, one of them has the anchor", func(_, s *Server) {
			s.Settings["max_wal_senders"], s.WalSenders = "2", 1
			s.Slots = []slotcatalog.Slot{{SlotState: protocol.SlotState{Name: "slotferry_anchor_1", Active: true}, Temporary: true}}
		}, nil, ""},
		{"role without REPLICATION", func(_, s *Server) { s.Role.Replication = false },
			[]string{`fail standby role "ferry": REPLICATION: no`}, `ALTER ROLE "ferry" REPLICATION`},
		{"role without pg_monitor", func(_, s *Server) { s.Role.ReadAllSettings = false },
			[]string{`fail standby role "ferry": pg_monitor: no`}, `GRANT pg_monitor TO "ferry"`},
		{"superuser", func(_, s *Server) { s.Role = Role{Name: "postgres", Superuser: true} }, nil, ""},
		{"no replication connection", func(_, s *Server) { s.ReplicationError = "no pg_hba.conf entry" },
			[]string{"fail standby replication=database: no pg_hba.conf entry"}, "pg_hba.conf"},
		{"database closed", func(_, s *Server) { s.ClosedDatabases = []string{"template0", "shop"} },
			[]string{"fail standby databases with slots: shop"}, "GRANT CONNECT"},
		{"database without slots closed", func(_, s *Server) { s.ClosedDatabases = []string{"template0"} }, nil, ""},
		{"walreceiver waits", func(_, s *Server) { s.WalReceiver.Status = "waiting" },
			[]string{"fail standby walreceiver: waiting from relay:6432"}, "primary_conninfo"},
		{"walreceiver hidden", func(_, s *Server) { *s.WalReceiver = WalReceiver{} },
			[]string{"fail standby walreceiver: not visible to this role"}, "GRANT pg_monitor"},
		{"delayed", func(_, s *Server) { s.Settings["recovery_min_apply_delay"] = "60000" },
			[]string{"warn standby recovery_min_apply_delay: 1m0s"}, ""},
		{"idle timeout", func(_, s *Server) { s.Settings["idle_replication_slot_timeout"] = "600" },
			[]string{"warn standby idle_replication_slot_timeout: 600"}, ""},
		{"a plugin that the standby is not told to load", func(u, s *Server) {
			u.Slots[1].Plugin, s.Settings["output_plugin_libraries"] = "wal2json", "pgoutput, test_decoding"
		}, []string{"fail standby output_plugin_libraries: pgoutput, test_decoding"}, ""},
		{"a plugin that the standby is told to load", func(u, s *Server) {
			u.Slots[1].Plugin, s.Settings["output_plugin_libraries"] = "wal2json", "pgoutput,wal2json"
		}, []string{"skip standby output plugins: wal2json"}, ""},
		{"another plugin", func(u, _ *Server) { u.Slots[1].Plugin = "wal2json" }, []string{"skip standby output plugins: wal2json"}, ""},

		{"plain text to the upstream", func(u, _ *Server) { u.Encryption = Encryption{} },
			[]string{"warn upstream encryption: plain text, across hosts"}, "sslmode=verify-full"},
		{"plain text to the standby", func(_, s *Server) { s.Encryption = Encryption{} },
			[]string{"warn standby encryption: plain text, across hosts"}, "sslmode=verify-full"},
		{"WAL in plain text", func(u, _ *Server) {
			u.Walsenders = []Walsender{{"db2", "10.0.0.2", false}, {"db3", "10.0.0.3", true}, {"here", "127.0.0.1", false}, {"six", "::1", false}}
		}, []string{`warn upstream walsender to "db2": plain text to 10.0.0.2`}, "--upstream of the relay"},
		{"WAL received in plain text", func(_, s *Server) { s.WalReceiver.SSLMode = "disable" },
			[]string{"warn standby primary_conninfo: sslmode=disable, from relay:6432"}, "--tls-cert"},
		{"WAL received in plain text, within the machine", func(_, s *Server) { s.WalReceiver.SSLMode, s.WalReceiver.Sender = "disable", "127.0.0.1:6433" }, nil, ""},
		{"upstream away", func(u, _ *Server) { *u = Server{ConnectError: "refused", ConnectHint: "look"} },
			[]string{"fail upstream connection: refused"}, "look"},
		{"standby away", func(_, s *Server) { *s = Server{ConnectError: "refused"} }, []string{"fail standby connection: refused"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			upstream, standby := goodPair()
			test.spoil(upstream, standby)
			var got []string
			var cure string
			for _, f := range Check(upstream, standby) {
				if f.Level == OK {
					continue
				}
				if len(got) == 0 {
					cure = f.Change
				}
				got = append(got, fmt.Sprintf("%s %s %s: %s", f.Level, f.Side, f.Setting, f.Value))
				if f.Level == Fail && f.Change == "" && !strings.Contains(f.Setting, "connection") {
					t.Errorf("%s has no cure", f.Setting)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			if !strings.Contains(cure, test.cure) {
				t.Errorf("cure is %q, want %q in it", cure, test.cure)
			}
		})
	}
}

// TestWhatNeedsARestart holds the two kinds of settings apart.
func TestWhatNeedsARestart(t *testing.T) {
	upstream, standby := goodPair()
	for _, s := range []*Server{upstream, standby} {
		s.Settings = map[string]string{"max_wal_senders": "0", "max_replication_slots": "0", "wal_receiver_status_interval": "0"}
	}
	for _, f := range Check(upstream, standby) {
		restart := f.Setting == "wal_level" || strings.HasPrefix(f.Setting, "max_")
		if f.Level == Fail && f.Restart != restart {
			t.Errorf("%s %s: restart is %v", f.Side, f.Setting, f.Restart)
		}
	}
}

func TestIsTableSync(t *testing.T) {
	for name, want := range map[string]bool{
		"pg_16394_sync_16385_7394666715149055164": true, "orders": false, "pg_orders_sync_1_2": false, "pg_1_sync_2": false, "pg_": false,
	} {
		if got := tableSync(name) != ""; got != want {
			t.Errorf("tableSync(%q): %v, want %v", name, got, want)
		}
	}
}

func TestCheckHelper(t *testing.T) {
	d := &statusdoc.Document{Command: "helper", Host: "db2", Helper: &decoder.Status{
		Role: decoder.RoleStandby, Upstream: decoder.UpstreamStatus{Fresh: true},
		Slots: []decoder.SlotStatusJSON{
			{Name: "a", State: decoder.StateReady},
			{Name: "b", State: decoder.StateBlocked, Reason: decoder.ReasonNameClash, Detail: "it is there"},
		},
	}}
	d.Judge()
	got := CheckHelper(d)
	if len(got) != 3 || got[0].Level != OK || got[1].Level != OK || got[2].Level != Fail ||
		got[2].Value != "blocked, name_clash, it is there" || got[2].Change != decoder.ReasonNameClash.Hint() {
		t.Errorf("found %+v", got)
	}
	d.Helper.Reason = decoder.ReasonNoRelay
	d.Judge()
	if got := CheckHelper(d); got[0].Level != Fail || got[0].Value != "no_relay" || got[0].Change == "" {
		t.Errorf("found %+v", got)
	}
	if got := CheckURLFailed("http://x/status", &statusdoc.UnreachableError{Err: fmt.Errorf("refused")}); got[0].Level != Fail || got[0].Change == "" {
		t.Errorf("found %+v", got)
	}
}

// TestCheckSessions looks at what passes through a relay.
func TestCheckSessions(t *testing.T) {
	session := func(kind relay.SessionKind, downstream, downTLS, upstream, upTLS string) relay.SessionStatus {
		return relay.SessionStatus{Kind: kind, Downstream: downstream, DownstreamTLS: downTLS, Upstream: upstream, UpstreamTLS: upTLS}
	}
	for _, test := range []struct {
		name     string
		sessions []relay.SessionStatus
		want     string
	}{
		{"none", nil, ""},
		{"encrypted end to end", []relay.SessionStatus{session(relay.KindOpaque, "10.0.0.2:1", "", "10.0.0.1:5432", "")}, ""},
		{"within the machine", []relay.SessionStatus{session(relay.KindPhysical, "127.0.0.1:1", "", "[::1]:5432", ""), session(relay.KindSidecar, "@", "", "/run/s", "")},
			"ok none in plain text across hosts"},
		{"TLS on both sides", []relay.SessionStatus{session(relay.KindPhysical, "10.0.0.2:1", "TLS 1.3", "10.0.0.1:5432", "TLS 1.2")},
			"ok none in plain text across hosts"},
		{"plain in", []relay.SessionStatus{session(relay.KindPhysical, "10.0.0.2:1", "", "10.0.0.1:5432", "TLS 1.2")},
			"warn plain text from 10.0.0.2:1"},
		{"plain both, many", []relay.SessionStatus{session(relay.KindPhysical, "10.0.0.2:1", "", "10.0.0.1:5432", ""), session(relay.KindQuery, "10.0.0.3:1", "", "10.0.0.1:5432", "")},
			"warn plain text from 10.0.0.2:1, to 10.0.0.1:5432, from 10.0.0.3:1 and 1 more"},
	} {
		l := &list{side: Helper}
		l.checkSessions(&relay.Status{Sessions: test.sessions})
		got := ""
		for _, f := range l.all {
			got += string(f.Level) + " " + f.Value
			if (f.Level == OK) != (f.Change == "") {
				t.Errorf("%s: %+v", test.name, f)
			}
		}
		if got != test.want {
			t.Errorf("%s: found %q, want %q", test.name, got, test.want)
		}
	}
}
