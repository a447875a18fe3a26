package decoder

import (
	"slices"
	"strings"

	"github.com/slotferry/slotferry/protocol"
)

// judgeGone judges rows of the ledger whose slot the upstream does not have.
// Only a whole, fresh message of this history is believed (I-15).
func judgeGone(v *View, top verdict, tracks map[string]Track) (list []SlotStatus, steps []Step) {
	if top.bad() {
		return nil, nil
	}
	upstream := make(map[string]bool, len(v.Upstream.Message.Slots))
	for i := range v.Upstream.Message.Slots {
		upstream[v.Upstream.Message.Slots[i].Name] = true
	}
	for name, row := range v.Owned {
		if upstream[name] {
			continue
		}
		local, exists := v.Standby.Slot(name)
		st := describe(v, &protocol.SlotState{Name: name, Database: row.Database, Plugin: row.Plugin}, local, exists)
		st.State, st.Reason = StateBlocked, ReasonNotOnUpstream
		var step Step
		switch {
		case !exists:
			step = Step{Kind: StepForget}
		case row.Released: // not the helper's to drop, but it keeps WAL: somebody should know
			list = append(list, st)
			continue
		case !row.describes(&local):
			step = Step{Kind: StepForget, Why: ReasonNameClash}
		default:
			step = Step{Kind: StepDrop, Why: ReasonNotOnUpstream}
			if t := tracks[name]; t.LastError != ReasonNone { // it could not be dropped
				st.Exists = true
				st.State, st.Reason, st.Detail = errorState(t.LastError), t.LastError, t.LastDetail
				list = append(list, st)
			}
		}
		step.Slot, step.Database, step.Plugin = name, row.Database, row.Plugin
		step.Timeline = v.Upstream.Message.TimelineID
		if mayStep(v, tracks, step) {
			steps = append(steps, step)
		}
	}
	slices.SortFunc(steps, func(a, b Step) int { return strings.Compare(a.Slot, b.Slot) })
	return list, steps
}
