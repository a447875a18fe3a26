package decoder

import (
	"fmt"
	"strings"

	"github.com/slotferry/slotferry/protocol"
)

// Decision is what Decide says: a state for every slot, and what to do now.
type Decision struct {
	Overall      Reason // what holds up every slot; ReasonNone: nothing does
	Detail       string
	Slots        []SlotStatus
	Steps        []Step
	Anchor       AnchorStep
	NeedSnapshot bool             // a running-xacts record is waited for
	CascadeWaits bool             // a standby of this standby may wait for such a record, and cannot ask the primary
	FoundWaits   bool             // a slot that was found here waits until its restart_lsn moves
	Reread       protocol.LSN     // most bytes of WAL that a ready slot has behind its position
	Tracks       map[string]Track // the tracks with what this look has shown
	AnchorProven bool
	ProvenBy     Protection // the anchor
	Protection   Protection // what this look has shown of the upstream's physical slot
}

// Step is one thing to do to one slot.
type Step struct {
	Kind     StepKind
	Slot     string
	Database string
	Plugin   string
	Upstream protocol.LSN // U the step was decided on
	Target   protocol.LSN // StepAdvance: where to, StepCopy: the anchor's position
	Timeline uint32       // the step is right only while this timeline is received; 0: on any
	TwoPhase bool         // StepCopy: the slot gets two_phase
	ByOption bool         // StepCopy: by pgoutput's option, where the server has no other way
	Why      Reason       // StepDrop, StepForget
}

// StepKind names a step.
type StepKind string

// The steps. Each concerns one slot and is written down in the ledger first
// when it changes what exists.
const (
	StepCopy    StepKind = "copy"    // make the slot from the anchor
	StepAdvance StepKind = "advance" // move it towards U
	StepDrop    StepKind = "drop"    // drop it, then its ledger row
	StepAdopt   StepKind = "adopt"   // write a row for a slot that is already there
	StepForget  StepKind = "forget"  // delete the row of a slot that is not there, or not ours
)

// String prints a step on one line, for logs and transcripts.
func (s Step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", s.Kind, s.Slot)
	switch s.Kind {
	case StepCopy, StepAdvance:
		fmt.Fprintf(&b, " to %v", s.Target)
	}
	switch {
	case s.ByOption:
		b.WriteString(" with two_phase by option")
	case s.TwoPhase:
		b.WriteString(" with two_phase")
	}
	if s.Why != ReasonNone {
		fmt.Fprintf(&b, ": %s", s.Why)
	}
	return b.String()
}

// AnchorStep is one thing to do to the anchor.
type AnchorStep struct {
	Kind   AnchorStepKind
	Target protocol.LSN // AnchorAdvance: where to
	Why    Reason       // AnchorClose; AnchorNothing: why there is no anchor
	Detail string
	Behind []string // slots that an advance past the budget leaves behind
}

// AnchorStepKind names a step of the anchor.
type AnchorStepKind string

// The steps of the anchor.
const (
	AnchorNothing AnchorStepKind = ""
	AnchorCreate  AnchorStepKind = "create"
	AnchorAdvance AnchorStepKind = "advance"
	AnchorClose   AnchorStepKind = "close"
)

// String prints an anchor step on one line.
func (s AnchorStep) String() string {
	var b strings.Builder
	b.WriteString("anchor ")
	if s.Kind == AnchorNothing {
		b.WriteString("nothing")
	} else {
		b.WriteString(string(s.Kind))
	}
	if s.Target != protocol.InvalidLSN {
		fmt.Fprintf(&b, " to %v", s.Target)
	}
	if s.Why != ReasonNone {
		fmt.Fprintf(&b, ": %s", s.Why)
	}
	if len(s.Behind) > 0 {
		fmt.Fprintf(&b, ", leaves behind %s", strings.Join(s.Behind, " "))
	}
	return b.String()
}

// SlotStatus is the state of one slot as Decide sees it.
type SlotStatus struct {
	Name     string
	Database string
	Plugin   string
	State    State
	Reason   Reason
	Detail   string       // figures and names for the reason
	Upstream protocol.LSN // U
	Local    protocol.LSN // L; InvalidLSN: no slot on the standby
	Exists   bool         // a slot of this name is on the standby and is the helper's
	Missing  protocol.LSN // subscriber_behind: bytes the subscriber has to confirm
	Lag      protocol.LSN // U - L in bytes, 0 when not behind
	Ahead    protocol.LSN // U beyond what the standby has received, in bytes, 0 when not
	Retained protocol.LSN // WAL the local slot keeps, in bytes
	Active   bool         // in use on the standby
}

// String prints a status on one line.
func (s SlotStatus) String() string {
	out := fmt.Sprintf("%s %s", s.Name, s.State)
	if s.Reason != ReasonNone {
		out += ": " + string(s.Reason)
	}
	if s.Detail != "" {
		out += " (" + s.Detail + ")"
	}
	return out
}
