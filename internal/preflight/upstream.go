package preflight

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slotferry/slotferry/internal/slotcatalog"
)

// oldestUpstream is the oldest major version a relay is made for.
const oldestUpstream = 13

// checkUpstream says what is right and wrong on the upstream.
func checkUpstream(s, standby *Server) []Finding {
	if s == nil {
		return nil
	}
	l := &list{side: Upstream}
	if !l.checkConnection(s) {
		return l.all
	}
	l.must(s.major() >= oldestUpstream, Finding{
		Setting: "server_version", Value: s.Version, Want: fmt.Sprintf("%d or newer", oldestUpstream), Change: "upgrade the server",
	})
	if s.InRecovery {
		l.note(Warn, Finding{
			Setting: "pg_is_in_recovery", Value: "yes", Want: "no, or a cascade",
			Change: "its slots are ready behind it only when they are on it: give the relay --helper-url of its helper",
		})
	}
	l.checkEncryption(s)
	l.checkWalsenders(s)
	l.checkWALLevel(s)
	l.checkRoom(Fail, s, "max_wal_senders", s.WalSenders, walSendersNeeded(s, standby),
		fmt.Sprintf("ALTER SYSTEM SET max_wal_senders = %d", s.WalSenders+4))
	l.checkRoom(Warn, s, "max_replication_slots", len(s.Slots), 1,
		fmt.Sprintf("ALTER SYSTEM SET max_replication_slots = %d", len(s.Slots)+4))
	if standby.connected() {
		l.checkSystemIdentifier(s, standby)
		l.checkPhysicalSlot(s, standby)
	}
	l.checkSnapshot(s)
	for i := range s.Slots {
		if !s.Slots[i].Physical {
			l.checkLogicalSlot(&s.Slots[i], s, standby)
		}
	}
	return l.all
}

// walSendersNeeded is one for the standby's walreceiver, unless it streams
// already.
func walSendersNeeded(s, standby *Server) int {
	if standby.connected() && standby.WalReceiver != nil {
		if slot, ok := s.slot(standby.WalReceiver.SlotName); ok && slot.Active {
			return 0
		}
	}
	return 1
}

func (l *list) checkSystemIdentifier(s, standby *Server) {
	f := Finding{
		Setting: "system identifier", Value: strconv.FormatUint(s.SystemIdentifier, 10),
		Want:   "that of the standby, " + strconv.FormatUint(standby.SystemIdentifier, 10),
		Change: "these are two clusters: check --upstream and --standby",
	}
	if s.SystemIdentifier == 0 || standby.SystemIdentifier == 0 {
		f.Value, f.Want, f.Change = "not known", "the same on both servers", ""
		l.note(Skip, f)
		return
	}
	l.must(s.SystemIdentifier == standby.SystemIdentifier, f)
}

// checkPhysicalSlot follows the standby's primary_slot_name: only a persistent
// slot with feedback keeps the catalog rows that the standby's slots need.
func (l *list) checkPhysicalSlot(s, standby *Server) {
	name := standby.Settings["primary_slot_name"]
	if name == "" {
		l.note(Fail, Finding{
			Setting: "physical slot", Value: "none named by the standby", Want: "one of the standby's own",
			Change: "SELECT pg_create_physical_replication_slot('NAME', true), then primary_slot_name on the standby",
		})
		return
	}
	slot, exists := s.slot(name)
	f := Finding{Setting: fmt.Sprintf("physical slot %q", name)}
	switch {
	case !exists:
		f.Value, f.Want = "missing", "there"
		f.Change = fmt.Sprintf("SELECT pg_create_physical_replication_slot('%s', true)", name)
	case !slot.Physical:
		f.Value, f.Want, f.Change = "a logical slot", "a physical one", "choose another name for primary_slot_name on the standby"
	case slot.Temporary:
		f.Value, f.Want, f.Change = "temporary", "persistent", "create one with pg_create_physical_replication_slot"
	case slot.WALStatus == "lost":
		f.Value, f.Want, f.Change = "wal_status lost", "reserved", "the standby must be made anew, or get WAL from an archive"
	case !slot.Active:
		f.Value, f.Want, f.Change = "not active", "active", "start the standby, and check its primary_conninfo"
	case slot.Xmin == 0 && slot.CatalogXmin == 0:
		f.Value, f.Want = "active, without xmin", "active, xmin set"
		f.Change = "hot_standby_feedback = on on the standby; the first feedback comes after wal_receiver_status_interval"
	default:
		f.Value, f.Want = fmt.Sprintf("active, xmin %s, catalog_xmin %s", xid(slot.Xmin), xid(slot.CatalogXmin)), "active, xmin set"
		l.must(true, f)
		return
	}
	l.note(Fail, f)
}

// xid prints a transaction id; "-" when there is none. catalog_xmin is set once
// the helper has made its first slot.
func xid(x uint32) string {
	if x == 0 {
		return "-"
	}
	return strconv.FormatUint(uint64(x), 10)
}

// checkSnapshot is a warning: without the function, a new slot waits for the
// record that the server writes by itself every 15 s, unless it is idle.
func (l *list) checkSnapshot(s *Server) {
	const setting = "pg_log_standby_snapshot()"
	switch {
	case s.InRecovery:
		l.note(Skip, Finding{Setting: setting, Value: "a standby cannot", Want: "executable on the primary"})
	case s.CanLogSnapshot == nil:
		l.note(Skip, Finding{Setting: setting, Value: "not in " + s.Version, Want: "executable"})
	default:
		l.should(*s.CanLogSnapshot, Finding{
			Setting: setting, Value: "executable: " + yesNo(*s.CanLogSnapshot), Want: "executable by " + s.Role.Name,
			Change: fmt.Sprintf("GRANT EXECUTE ON FUNCTION pg_log_standby_snapshot() TO %s; without it new slots wait, on an idle primary for ever",
				quoteIdent(s.Role.Name)),
		})
	}
}

// checkLogicalSlot says whether a slot can be ferried.
func (l *list) checkLogicalSlot(slot *slotcatalog.Slot, upstream, standby *Server) {
	f := Finding{
		Setting: fmt.Sprintf("logical slot %q", slot.Name),
		Value:   fmt.Sprintf("database %q, plugin %s", slot.Database, slot.Plugin), Want: "ferried",
	}
	level, why := ferriable(slot, upstream, standby)
	if level == OK {
		l.must(true, f)
		return
	}
	f.Value = why
	f.Change = changeFor(slot, level)
	l.note(level, f)
}

// ferriable says whether a slot of the upstream can be kept on the standby, and why
// not. That worker is for slots of a primary: those of a standby are ferried, whoever
// put them there (decoder's judge decides so).
func ferriable(slot *slotcatalog.Slot, upstream, standby *Server) (Level, string) {
	switch {
	case slot.Temporary:
		return Skip, "temporary: ends with its session"
	case tableSync(slot.Name) != "":
		return Skip, "table synchronization: " + tableSync(slot.Name) + " is copied again after a failover"
	case slot.InvalidationReason != "":
		return Fail, "invalid: " + slot.InvalidationReason
	case standby.connected() && standby.syncs(slot, upstream):
		return Skip, "failover: left to the standby's slot sync worker"
	case slot.TwoPhase && slot.Plugin != "pgoutput" && standby.connected() && standby.major() < 18:
		return Warn, fmt.Sprintf("two_phase: PostgreSQL %d can set it for pgoutput only", standby.major())
	}
	return OK, ""
}

// syncs reports whether the standby's slot sync worker has a slot of the upstream, or
// is going to.
func (s *Server) syncs(slot *slotcatalog.Slot, upstream *Server) bool {
	local, here := s.slot(slot.Name)
	return here && local.Synced || slot.Failover && !upstream.InRecovery && s.Settings["sync_replication_slots"] == "on"
}

func changeFor(slot *slotcatalog.Slot, level Level) string {
	switch {
	case slot.InvalidationReason != "":
		return "drop it and set the subscription up again"
	case level == Warn:
		return "drop it, and let its consumer create it without two_phase; 18 can set it for every plugin"
	}
	return ""
}

// tableSync says whose initial copy a slot is of, by its name,
// pg_<subscription>_sync_<relation>_<system identifier> (ReplicationSlotNameForTablesync,
// tablesync.c); "" when it is no such slot. The numbers are the subscriber's OIDs.
func tableSync(name string) string {
	rest, ok := strings.CutPrefix(name, "pg_")
	subscription, rest, found := strings.Cut(rest, "_sync_")
	relation, system, both := strings.Cut(rest, "_")
	if !ok || !found || !both || !isNumber(subscription) || !isNumber(relation) || !isNumber(system) {
		return ""
	}
	return fmt.Sprintf("the table with OID %s of the subscription with OID %s on the subscriber", relation, subscription)
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

func quoteIdent(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// milliseconds reads a setting of that unit.
func milliseconds(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Millisecond
}
