package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/human"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/internal/table"
	"github.com/slotferry/slotferry/protocol"
)

// statusGroup is what answered of one database cluster, as PostgreSQL uses the
// word: the servers that share a system identifier.
type statusGroup struct {
	system  uint64 // 0: not known yet
	answers []answer
}

// groups sorts the answers by cluster, in the order in which they were asked for.
func groups(answers []answer) []statusGroup {
	var list []statusGroup
	for _, a := range answers {
		if a.Status == nil {
			continue
		}
		system, _ := a.Status.System()
		i := slices.IndexFunc(list, func(g statusGroup) bool { return g.system == system })
		if i < 0 {
			i, list = len(list), append(list, statusGroup{system: system})
		}
		list[i].answers = append(list[i].answers, a)
	}
	return list
}

// all writes every cluster.
func (v *statusView) all(answers []answer) {
	for i, g := range groups(answers) {
		if i > 0 {
			v.line("")
		}
		v.group(g)
	}
}

func (v *statusView) group(g statusGroup) {
	if g.system == 0 {
		v.line("system identifier not known yet")
	} else {
		v.line("system identifier %d", g.system)
	}
	v.line("")
	v.processes(g.answers)
	var documents []*statusdoc.Document
	for _, a := range g.answers {
		documents = append(documents, a.Status)
	}
	v.slots(documents)
	for _, d := range documents {
		if d.Relay != nil && len(d.Relay.Sessions) > 0 {
			v.line("")
			v.sessions(d)
		}
		if d.Relay != nil && d.Relay.HoldBack != nil {
			v.holdBack(d.Relay, d.Time)
		}
	}
	v.line("")
	for _, d := range documents {
		v.notes(d)
	}
	for _, d := range documents {
		if d.Helper != nil && d.Helper.Promotion != nil {
			v.line("")
			v.out.WriteString(d.Helper.Promotion.Text(v.color))
		}
	}
	v.hints(documents)
}

// processes has a row for each process, and what it knows of its server.
func (v *statusView) processes(answers []answer) {
	t := table.Table{
		Header: []string{"PROCESS", "HOST", "URL", "SERVER", "TIMELINE", "REPLAYED", "SLOT MESSAGE", "SLOTS READY", "UP", "VERSION", "STATE"},
		Right:  []bool{false, false, false, false, true, false, true, true, true},
	}
	for _, a := range answers {
		d := a.Status
		role, replayed, message, ready := "-", "-", "-", "-"
		if s := d.Source(); s != nil && s.Connected {
			role = "primary"
			if s.InRecovery {
				role = string(decoder.RoleStandby)
			}
			message = old(d.Time.Sub(s.LastMessage))
		}
		if h := d.Helper; h != nil {
			role, replayed, message = string(h.Role), lsn(h.Standby.ReplayLSN), "none yet"
			if seconds := d.MessageAge(); seconds >= 0 {
				message = old(time.Duration(seconds * float64(time.Second)))
			}
			counts := d.CountSlots()
			ready = fmt.Sprintf("%d of %d", counts.Ready, counts.Total())
		}
		timeline := "-"
		if _, id := d.System(); id != 0 {
			timeline = fmt.Sprint(id)
		}
		row := table.Text(d.Command, d.Host, a.URL, role, timeline, replayed, message, ready,
			human.Duration(d.Time.Sub(d.Started)), d.Version, "ready")
		row[10].Color = table.Good
		if !d.Ready {
			row[10] = table.Cell{Text: "NOT READY", Color: table.Bad}
		}
		t.Rows = append(t.Rows, row)
	}
	v.table(t)
}

func old(d time.Duration) string { return human.Duration(d) + " old" }

// slots has a row for each slot of each helper, those of one name together.
func (v *statusView) slots(documents []*statusdoc.Document) {
	type line struct {
		d *statusdoc.Document
		s *decoder.SlotStatusJSON
	}
	var lines []line
	var counts statusdoc.Counts
	helpers := 0
	for _, d := range documents {
		if d.Helper == nil {
			continue
		}
		helpers++
		counts = counts.Plus(d.CountSlots())
		for i := range d.Helper.Slots {
			lines = append(lines, line{d, &d.Helper.Slots[i]})
		}
	}
	if helpers == 0 {
		return
	}
	if helpers > 1 {
		first := map[string]int{} // where a name was seen first
		for i, l := range lines {
			if _, ok := first[l.s.Name]; !ok {
				first[l.s.Name] = i
			}
		}
		slices.SortStableFunc(lines, func(a, b line) int { return first[a.s.Name] - first[b.s.Name] })
	}
	t := table.Table{
		Header: []string{"SLOT", "DATABASE", "PLUGIN", "ON", "UPSTREAM", "STANDBY", "LAG", "LAG TIME", "STATE", "REASON", "SINCE"},
		Right:  []bool{false, false, false, false, false, false, true, true, false, false, true},
	}
	var details []string
	for _, l := range lines {
		s, lag, lagTime := l.s, "-", "-"
		if s.Local != protocol.InvalidLSN {
			lag, lagTime = human.Bytes(s.Lag), human.Duration(time.Duration(s.LagTime*float64(time.Second)))
		}
		row := table.Text(s.Name, s.Database, s.Plugin, l.d.Host, lsn(s.Upstream), lsn(s.Local), lag, lagTime, string(s.State),
			string(s.Reason), human.Duration(l.d.Time.Sub(s.Since)))
		row[8].Color = stateColor(s.State)
		t.Rows = append(t.Rows, row)
		if s.Detail != "" && s.State != decoder.StateReady {
			details = append(details, table.Printable(s.Name)+": "+table.Printable(s.Detail))
		}
		if s.Ahead > 0 {
			details = append(details, fmt.Sprintf("%s: its subscriber has confirmed %s of WAL that %s has not received",
				table.Printable(s.Name), human.Bytes(s.Ahead), table.Printable(l.d.Host)))
		}
	}
	if helpers == 1 { // on which standby is clear
		t.Header, t.Right = slices.Delete(t.Header, 3, 4), slices.Delete(t.Right, 3, 4)
		for i := range t.Rows {
			t.Rows[i] = slices.Delete(t.Rows[i], 3, 4)
		}
	}
	if len(lines) > 0 {
		v.line("")
		v.table(t)
	}
	for _, text := range details {
		v.line("%s", text)
	}
	v.line("")
	v.line("%v", counts)
}
