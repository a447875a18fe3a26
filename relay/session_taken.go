package relay

import (
	"context"
	"errors"
	"time"

	"github.com/slotferry/slotferry/internal/contain"
	"github.com/slotferry/slotferry/protocol"
)

// took deals with what a scan found besides bytes to forward. It is called by
// the pump of that direction, without s.mu.
func (s *session) took(dir Direction, v *Verdict) {
	if v.Began {
		s.assembler.Reset()
		s.logBegin()
		s.relay.sawUpstream(nil, true)
		s.standbyBegan()
	}
	if v.Ended {
		s.standbyFlushed(protocol.InvalidLSN)
	}
	if s.facts.kind == KindPhysical && v.SystemIdentifier != 0 {
		s.relay.sawSystem(v.SystemIdentifier)
	}
	if s.facts.kind == KindPhysical && v.UpstreamError != nil {
		e := v.UpstreamError
		s.relay.sawUpstream(&UpstreamError{Code: e.Code, Message: e.Message, Hint: e.Hint}, true)
	}
	if v.Key != nil {
		s.mu.Lock()
		s.facts.key = v.Key
		s.mu.Unlock()
	}
	if v.NoRelay {
		s.mu.Lock()
		s.facts.noRelay, s.facts.optedIn = true, false
		s.mu.Unlock()
		s.relay.sawNoRelay(s.facts.upstream.upstreamAddr)
	}
	if v.Ready && s.ownTLS() {
		s.relay.sawBinding(nil)
		s.relay.sawLeftAtOffer(false)
	}
	if v.Ready && s.relay.cfg.Mode == ModeStrip && s.status().OptedIn {
		s.relay.sawRelay()
	}
	for _, t := range v.Taken {
		if dir == Downstream {
			s.tookSlotFrame(t.Body)
		} else {
			s.tookReport(t.Body)
		}
	}
}

// tookSlotFrame decodes what ModeStrip took out of the stream, and hands whole
// messages to the sink. Failing here never touches the stream.
func (s *session) tookSlotFrame(body []byte) {
	var m *protocol.SlotMessage
	err := protocol.ErrTooLarge
	if body != nil {
		err = s.relay.panics.Do("slot messages taken out", s.log, func() (err error) {
			m, err = s.assembler.Add(body[protocol.XLogDataHeaderLen:])
			return err
		})
	}
	if contain.Is(err) {
		s.assembler.Reset()
	}
	s.countTaken(err)
	if !s.relaySeen.Swap(true) {
		s.downstream.nudge() // reports may flow from now on
	}
	if m == nil {
		return
	}
	s.mu.Lock()
	s.facts.lastMessage = time.Now()
	s.mu.Unlock()
	s.relay.metrics.messagesStripped.Add(1)
	if sink := s.relay.cfg.Sink; sink != nil {
		_ = s.relay.panics.Do("sink of slot messages", s.log, func() error { sink.Deliver(m); return nil }) // counted and logged there
	}
}

// errForgedReport is a report that came to ModeStrip from its downstream. There
// the helper is this process itself, and speaks for itself.
var errForgedReport = errors.New("a report came from the standby's side, where no helper is")

// tookReport decodes what ModeSplice took from the helper.
func (s *session) tookReport(body []byte) {
	if s.relay.cfg.Mode == ModeStrip {
		s.countTaken(errForgedReport)
		return
	}
	if len(body) > 0 && body[0] != protocol.MsgHelperReport {
		return // feedback during SLOT_STATE: there is no walsender to tell
	}
	r := new(protocol.HelperReport)
	err := protocol.ErrTooLarge
	if len(body) > 0 {
		err = s.relay.panics.Do("reports taken out", s.log, func() error { return r.Decode(body[1:]) })
	}
	s.countTaken(err)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.facts.helperReport = r
	s.mu.Unlock()
	if r.SnapshotRequest != 0 && r.SnapshotRequest != s.servedSnapshot && s.relay.cfg.Slots != nil {
		s.servedSnapshot = r.SnapshotRequest
		s.relay.cfg.Slots.RequestSnapshot()
	}
}

func (s *session) countTaken(err error) {
	s.mu.Lock()
	s.facts.stripped++
	if err != nil {
		s.facts.damaged++
	}
	s.mu.Unlock()
	s.relay.sawTaken(err)
}

// spoke counts a frame of ours that is about to be written. Speakers call it
// with s.mu held.
func (s *session) spoke(frame []byte) {
	if frame == nil {
		return
	}
	s.facts.spliced++
	if s.relay.cfg.Mode == ModeSplice {
		s.facts.lastMessage = time.Now()
	}
	s.relay.metrics.framesSpliced.Add(1)
}

// deliver puts a slot message into the mailbox and wakes the downstream pump.
// The slot source's goroutine calls it; nil says that the source is cut off.
func (s *session) deliver(p *publication) {
	s.box.put(p)
	if p != nil {
		s.upstream.nudge()
	}
}

// watchReports keeps the newest report ready for the upstream pump, again at
// every interval.
func (s *session) watchReports(ctx context.Context) {
	again := time.NewTicker(s.relay.cfg.ReportInterval)
	defer again.Stop()
	for {
		frame, changed := s.newestReport()
		if frame != nil {
			s.report.Store(&frame)
			s.downstream.nudge()
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-again.C:
		}
	}
}

// newestReport returns the newest report as a frame, nil when there is none or it
// cannot be had, and a channel that is closed when there is a newer one; nil: not known.
func (s *session) newestReport() (frame []byte, changed <-chan struct{}) {
	err := s.relay.panics.Do("source of reports", s.log, func() error {
		var r *protocol.HelperReport
		if r, changed = s.relay.cfg.Reports.Report(); r == nil {
			return nil
		}
		body, err := r.Append(nil)
		if err == nil {
			frame = protocol.AppendCopyData(nil, body)
		}
		return err
	})
	s.relay.sawReport(err)
	return frame, changed
}
