package relay

import (
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// slotSpeaker puts slot messages into the downstream direction of ModeSplice,
// and answers SLOT_STATE. Owned by the downstream pump.
type slotSpeaker struct {
	s       *session
	splicer Splicer
	sidecar bool // slot messages alone flow
}

func (k *slotSpeaker) began() { k.splicer.Restart() }

func (k *slotSpeaker) within(v *Verdict) (frame []byte, more bool) {
	if !k.s.conv.MaySplice() {
		return nil, false
	}
	newest := k.s.box.get()
	frame = k.splicer.Next(newest, v.WALEnd, protocol.Micros(time.Now()))
	k.s.spoke(frame)
	return frame, k.splicer.Pending(newest)
}

func (k *slotSpeaker) atRest() (frames []byte, more bool) {
	owed, open := k.s.conv.sidecarOwes(nil)
	if !open {
		k.sidecar = false
		if len(owed) > 0 || !k.s.conv.MaySplice() {
			return owed, false
		}
		newest := k.s.box.get()
		frame := k.splicer.Next(newest, k.s.down.flow.Position(), protocol.Micros(time.Now()))
		k.s.spoke(frame)
		return frame, k.splicer.Pending(newest)
	}
	if !k.sidecar {
		k.sidecar = true
		k.splicer.Restart()
	}
	newest := k.s.box.get()
	if newest == nil {
		return owed, false
	}
	// No WAL is forwarded here: the position of the message itself is what the
	// helper can rely on.
	frame := k.splicer.Next(newest, newest.message.CaptureLSN, protocol.Micros(time.Now()))
	k.s.spoke(frame)
	return append(owed, frame...), k.splicer.Pending(newest)
}

// reportSpeaker puts the helper's reports into the upstream direction of
// ModeStrip. Owned by the upstream pump.
type reportSpeaker struct{ s *session }

func (k *reportSpeaker) began() {}

func (k *reportSpeaker) within(*Verdict) (frame []byte, more bool) { return k.atRest() }

// atRest speaks only where a slot message has shown that a relay listens: a
// walsender ends the session at a message it does not know
// (ProcessStandbyMessage, walsender.c).
func (k *reportSpeaker) atRest() (frames []byte, more bool) {
	if !k.s.conv.MaySplice() || !k.s.relaySeen.Load() {
		return nil, false
	}
	frame := k.s.report.Swap(nil)
	if frame == nil {
		return nil, false
	}
	k.s.spoke(*frame)
	return *frame, false
}
