// Package statusdoc is the JSON document of /status: what one slotferry process
// knows about itself, and whether that means ready. The process that serves it
// and the commands that read it share this package, so both judge alike.
package statusdoc

import (
	"slices"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/relay"
)

// Kind names the document and its version. Fields are added to a version, never
// renamed or removed.
const Kind = "slotferry.status/1"

// Document is the whole state of one slotferry process at one moment.
type Document struct {
	Kind    string    `json:"kind"`
	Version string    `json:"version"` // of slotferry
	Command string    `json:"command"` // relay, helper or solo
	Host    string    `json:"host"`
	Time    time.Time `json:"time"`    // of this document
	Started time.Time `json:"started"` // of the process

	Upstream string `json:"upstream"` // addresses, as in --upstream
	Standby  string `json:"standby"`  // as in --standby; "" where there is no helper

	Ready    bool       `json:"ready"`
	NotReady []NotReady `json:"not_ready"` // why; empty when ready

	Relay      *relay.Status           `json:"relay,omitempty"`
	SlotSource *relay.SlotSourceStatus `json:"slot_source,omitempty"` // of solo; that of a relay is in relay
	Helper     *decoder.Status         `json:"helper,omitempty"`
}

// Source returns the state of the slot source, wherever it is; nil when there is
// none.
func (d *Document) Source() *relay.SlotSourceStatus {
	if d.SlotSource == nil && d.Relay != nil {
		return d.Relay.SlotSource
	}
	return d.SlotSource
}

// System returns the system identifier and the timeline of the servers that the
// process serves; zeros where they are not known yet.
func (d *Document) System() (identifier uint64, timeline uint32) {
	if h := d.Helper; h != nil && h.Standby.SystemIdentifier != 0 {
		identifier, timeline = h.Standby.SystemIdentifier, h.Standby.TimelineID
		switch {
		case h.Promotion != nil:
			timeline = h.Promotion.TimelineID
		case timeline == 0: // no walreceiver
			timeline = h.Upstream.TimelineID
		}
		return identifier, timeline
	}
	if s := d.Source(); s != nil {
		return s.SystemIdentifier, s.TimelineID
	}
	return 0, 0
}

// NotReady is one thing that keeps a process from being ready.
type NotReady struct {
	Part   string `json:"part"`                // relay, slot_source, helper, anchor or slot
	Slot   string `json:"slot_name,omitempty"` // of part slot
	Reason string `json:"reason"`              // of a fixed set: scripts may compare
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
}

// Judge fills in Kind, Ready and NotReady from the rest of the document.
func (d *Document) Judge() {
	d.Kind = Kind
	d.NotReady = slices.Concat(judgeRelay(d.Relay), judgeSource(d.Source()), judgeHelper(d.Helper, d.Time))
	if d.Relay == nil && d.Helper == nil {
		d.NotReady = append(d.NotReady, NotReady{Part: "relay", Reason: ReasonNotRunning, Detail: "nothing runs here yet"})
	}
	d.Ready = len(d.NotReady) == 0
	if d.NotReady == nil {
		d.NotReady = []NotReady{} // a list, never null
	}
}
