package preflight

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/slotferry/slotferry/internal/human"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// CheckHoldBack turns what a running relay knows of hold-back into findings: slots
// whose subscribers are not held back, and streams that wait or were let go. A relay
// that holds nothing back gives none. now is the status's time.
func CheckHoldBack(r *relay.Status, now time.Time) []Finding {
	if r == nil || r.HoldBack == nil {
		return nil
	}
	h := r.HoldBack
	l := &list{side: Upstream}
	l.should(h.Known && h.Position != protocol.InvalidLSN, Finding{
		Setting: "hold-back", Value: holdBackValue(h), Want: "enough standbys of " + h.Standbys + " that stream",
		Change: "Start the standbys, or change --hold-back; until then subscribers get nothing new.",
	})
	for i := range h.Slots {
		s := &h.Slots[i]
		f := Finding{Setting: fmt.Sprintf("hold-back of slot %q", s.Name), Want: "consumed through the relay"}
		switch {
		case s.Exempt:
			continue // as it was asked for
		case s.Consumer == relay.ConsumerWalsender:
			f.Value = fmt.Sprintf("walsender %d is not of this relay", s.PID)
			f.Change = "Let the subscriber connect to the relay, or exempt the slot: --hold-back-exempt."
		case s.Consumer == relay.ConsumerSQL:
			f.Value = "consumed by SQL functions"
			f.Change = "Use a replication connection through the relay; SQL functions cannot be held back."
		default:
			continue
		}
		if s.Ahead > 0 {
			f.Value += fmt.Sprintf(", %d bytes ahead of the standbys", s.Ahead)
		}
		l.should(false, f)
	}
	for i := range r.Sessions {
		s := r.Sessions[i].HoldBack
		if s == nil {
			continue
		}
		f := Finding{Setting: fmt.Sprintf("hold-back of slot %q", s.Slot)}
		switch {
		case s.State == "let_go":
			f.Value, f.Want = "let go after --hold-back-timeout", "held back"
			f.Change = "Its subscriber can be ahead of the next primary. See which standby does not flush."
		case s.State == "held" && s.Since != nil && now.Sub(*s.Since) >= relay.HeldLong:
			f.Value = fmt.Sprintf("held for %s: %s", human.Duration(now.Sub(*s.Since)), s.Reason)
			if len(s.By) > 0 {
				f.Value += " (" + strings.Join(s.By, ", ") + ")"
			}
			f.Want = "held for moments"
			f.Change = cmp.Or(s.Hint, "See why these standbys do not flush: pg_stat_replication of the upstream.")
		default:
			continue
		}
		l.should(false, f)
	}
	return l.all
}

func holdBackValue(h *relay.HoldBackStatus) string {
	if !h.Known {
		return "the walsenders have not been read yet"
	}
	names := make([]string, 0, len(h.Connected))
	for i := range h.Connected {
		if s := &h.Connected[i]; s.Streaming {
			names = append(names, fmt.Sprintf("%s at %v", s.Name(), s.Flush))
		}
	}
	if len(names) == 0 {
		return "no standby streams"
	}
	return strings.Join(names, ", ")
}
