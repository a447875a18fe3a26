package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/slotcatalog"
)

// oldestStandby is the first major version that decodes on a standby.
const oldestStandby = 16

// checkStandby says what is right and wrong on the standby.
func checkStandby(s, upstream *Server) []Finding {
	if s == nil {
		return nil
	}
	l := &list{side: Standby}
	if !l.checkConnection(s) {
		return l.all
	}
	l.checkVersion(s, upstream)
	l.must(s.InRecovery, Finding{
		Setting: "pg_is_in_recovery", Value: yesNo(s.InRecovery), Want: "yes",
		Change: "this server is a primary: check --standby",
	})
	l.checkEncryption(s)
	l.checkWALLevel(s)
	l.checkFeedback(s)
	l.checkRoom(Fail, s, "max_replication_slots", len(s.Slots), slotsNeeded(s, upstream),
		fmt.Sprintf("ALTER SYSTEM SET max_replication_slots = %d", len(s.Slots)+slotsNeeded(s, upstream)+4))
	l.checkRoom(Fail, s, "max_wal_senders", s.WalSenders, walSendersForHelper(s),
		fmt.Sprintf("ALTER SYSTEM SET max_wal_senders = %d", s.WalSenders+4))
	l.checkRole(s)
	l.checkDatabases(s, upstream)
	if s.InRecovery {
		l.checkWalReceiver(s)
	}
	l.checkSlotSync(s)
	l.checkDelay(s)
	l.checkPlugins(s, upstream)
	return l.all
}

func (l *list) checkVersion(s, upstream *Server) {
	l.must(s.major() >= oldestStandby, Finding{
		Setting: "server_version", Value: s.Version, Want: fmt.Sprintf("%d or newer", oldestStandby),
		Change: "upgrade: PostgreSQL before 16 cannot decode on a standby, so no slot can be kept; WAL is forwarded all the same",
	})
	if upstream.connected() && upstream.major() != s.major() {
		l.note(Fail, Finding{
			Setting: "server_version", Value: s.Version, Want: fmt.Sprintf("that of the upstream, %d", upstream.major()),
			Change: "physical replication needs the same major version: check --upstream and --standby",
		})
	}
}

// checkFeedback goes through what keeps catalog rows on the upstream.
func (l *list) checkFeedback(s *Server) {
	l.must(s.Settings["hot_standby_feedback"] == "on", Finding{
		Setting: "hot_standby_feedback", Value: s.Settings["hot_standby_feedback"], Want: "on",
		Change: "ALTER SYSTEM SET hot_standby_feedback = on, then SELECT pg_reload_conf()",
	})
	interval := s.Settings["wal_receiver_status_interval"]
	l.must(interval != "0", Finding{
		Setting: "wal_receiver_status_interval", Value: interval + " s", Want: "above 0",
		Change: "ALTER SYSTEM SET wal_receiver_status_interval = '10s', then SELECT pg_reload_conf()",
	})
	name := s.Settings["primary_slot_name"]
	l.must(name != "", Finding{
		Setting: "primary_slot_name", Value: orElse(name, "empty"), Want: "a physical slot on the upstream",
		Change: "ALTER SYSTEM SET primary_slot_name = 'NAME', then SELECT pg_reload_conf()",
	})
}

// slotsNeeded is one for each slot to ferry that is not here yet, and one for
// the anchor, which lives as long as the helper runs.
func slotsNeeded(s, upstream *Server) int {
	need := 1
	if s.anchor() != nil {
		need = 0
	}
	if !upstream.connected() {
		return need
	}
	for i := range upstream.Slots {
		slot := &upstream.Slots[i]
		if level, _ := ferriable(slot, upstream, s); slot.Physical || level != OK {
			continue
		}
		if _, here := s.slot(slot.Name); !here {
			need++
		}
	}
	return need
}

// walSendersForHelper is one for the anchor's session, unless it is there, and
// one for what comes and goes: reading a timeline's history, setting two_phase.
func walSendersForHelper(s *Server) int {
	if anchor := s.anchor(); anchor != nil && anchor.Active {
		return 1
	}
	return 2
}

// anchor returns the slot that a running helper makes the others from; nil: none.
// Other temporary slots are somebody else's.
func (s *Server) anchor() *slotcatalog.Slot {
	for i := range s.Slots {
		if slot := &s.Slots[i]; slot.Temporary && !slot.Physical && decoder.IsAnchor(slot.Name) {
			return slot
		}
	}
	return nil
}

func (l *list) checkRole(s *Server) {
	r := s.Role
	replication := r.Replication || r.Superuser
	l.must(replication, Finding{
		Setting: fmt.Sprintf("role %q", r.Name), Value: "REPLICATION: " + yesNo(replication), Want: "REPLICATION",
		Change: fmt.Sprintf("on the primary: ALTER ROLE %s REPLICATION", quoteIdent(r.Name)),
	})
	monitor := r.Superuser || r.ReadAllStats && r.ReadAllSettings
	l.must(monitor, Finding{
		Setting: fmt.Sprintf("role %q", r.Name), Value: "pg_monitor: " + yesNo(monitor), Want: "pg_monitor",
		Change: fmt.Sprintf("on the primary: GRANT pg_monitor TO %s", quoteIdent(r.Name)),
	})
	l.must(s.ReplicationError == "", Finding{
		Setting: "replication=database", Value: orElse(s.ReplicationError, "connected"), Want: "a session",
		Change: "the helper creates its first slot over such a connection: give the role REPLICATION and a line in pg_hba.conf",
	})
}

func (l *list) checkDatabases(s, upstream *Server) {
	if !upstream.connected() {
		return
	}
	used := map[string]bool{}
	for i := range upstream.Slots {
		if !upstream.Slots[i].Physical {
			used[upstream.Slots[i].Database] = true
		}
	}
	var closed []string
	for _, name := range s.ClosedDatabases {
		if used[name] {
			closed = append(closed, name)
		}
	}
	if len(used) == 0 {
		return
	}
	l.must(len(closed) == 0, Finding{
		Setting: "databases with slots", Value: orElse(strings.Join(closed, ", "), fmt.Sprintf("%d, all open", len(used))),
		Want: "CONNECT for " + s.Role.Name, Change: "on the primary: GRANT CONNECT ON DATABASE ... TO " + quoteIdent(s.Role.Name) + "; ALTER DATABASE ... ALLOW_CONNECTIONS true",
	})
}

func (l *list) checkWalReceiver(s *Server) {
	f := Finding{
		Setting: "walreceiver", Value: "none", Want: "streaming",
		Change: "check primary_conninfo: host and port of the relay, or of the helper if it listens",
	}
	switch w := s.WalReceiver; {
	case w == nil:
	case w.Status == "": // PostgreSQL shows others only that there is one
		f.Value = "not visible to this role"
		f.Change = "on the primary: GRANT pg_monitor TO " + quoteIdent(s.Role.Name)
	case w.Sender == "":
		f.Value = w.Status
	default:
		f.Value = w.Status + " from " + w.Sender
	}
	l.must(s.WalReceiver != nil && s.WalReceiver.Status == "streaming", f)
	if s.WalReceiver != nil {
		l.checkReceived(s.WalReceiver)
	}
}

// checkSlotSync says who has failover slots on 17 and newer.
func (l *list) checkSlotSync(s *Server) {
	value, known := s.Settings["sync_replication_slots"]
	if !known {
		return
	}
	l.should(value != "on", Finding{
		Setting: "sync_replication_slots", Value: value, Want: "off, or slots with failover left to it",
		Change: "slots with failover are PostgreSQL's own then, slotferry keeps the others",
	})
}

// checkDelay says what makes ready later than the upstream has it.
func (l *list) checkDelay(s *Server) {
	if delay := milliseconds(s.Settings["recovery_min_apply_delay"]); delay > 0 {
		l.note(Warn, Finding{
			Setting: "recovery_min_apply_delay", Value: delay.String(), Want: "0",
			Change: "slots become ready that much later, and the upstream keeps catalog rows that much longer",
		})
	}
	if timeout, known := s.Settings["idle_replication_slot_timeout"]; known {
		l.should(timeout == "0", Finding{
			Setting: "idle_replication_slot_timeout", Value: timeout, Want: "0",
			Change: "slots that nobody advances within it are invalidated; the helper touches them in time while it runs",
		})
	}
}

// checkPlugins can only look at what the standby is told to load, where there is
// such a setting: which libraries a server can load is seen only by loading them.
func (l *list) checkPlugins(s, upstream *Server) {
	if !upstream.connected() {
		return
	}
	setting, limited := s.Settings["output_plugin_libraries"]
	listed := slotcatalog.SplitPluginList(setting)
	plugins, refused := map[string]bool{}, map[string]bool{}
	for i := range upstream.Slots {
		slot := &upstream.Slots[i]
		switch {
		case slot.Physical:
		case limited && !slices.Contains(listed, slot.Plugin):
			refused[slot.Plugin] = true
		case slot.Plugin != "pgoutput": // that one is always installed
			plugins[slot.Plugin] = true
		}
	}
	if limited {
		missing := strings.Join(slices.Sorted(maps.Keys(refused)), ", ")
		l.must(missing == "", Finding{
			Setting: "output_plugin_libraries", Value: setting, Want: orElse(missing, "the plugins of the slots"),
			Change: "add what is missing to the list on the standby, then SELECT pg_reload_conf()",
		})
	}
	if len(plugins) > 0 {
		l.note(Skip, Finding{
			Setting: "output plugins", Value: strings.Join(slices.Sorted(maps.Keys(plugins)), ", "),
			Want: "installed here too", Change: "cannot be checked; a slot whose plugin is missing says so in status",
		})
	}
}
