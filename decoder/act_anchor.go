package decoder

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// actAnchor begins what was decided for the anchor, and asks for a running-xacts
// record while its creation waits for one.
func (h *Helper) actAnchor(ctx context.Context, d *Decision) {
	switch d.Anchor.Kind {
	case AnchorCreate:
		h.anchor = Anchor{
			Phase: AnchorCreating, Name: newAnchorName(), Started: time.Now(),
			LastError: h.anchor.LastError, LastDetail: h.anchor.LastDetail, RetryWait: h.anchor.RetryWait, // until it is over
		}
		name := h.anchor.Name
		actx, cancel := context.WithCancel(ctx)
		h.anchorStop = cancel
		h.workers.Go(func() {
			r := result{anchor: AnchorCreate, name: name}
			r.err = h.panics.Do("anchor", h.log, func() (err error) {
				r.conn, r.lsn, err = createAnchor(actx, h.sessions, name)
				return err
			})
			h.results <- r
		})
	case AnchorAdvance:
		if len(d.Anchor.Behind) > 0 {
			h.log.Warn().Strs("slots", d.Anchor.Behind).Stringer("target_lsn", d.Anchor.Target).
				Msg("anchor moves on past its budget, slots left behind wait for their subscribers")
		}
		h.anchor.Phase, h.anchor.Started = AnchorMoving, time.Now()
		conn, target, tli := h.anchorConn, d.Anchor.Target, h.standby.ReceivedTLI
		patience := cmp.Or(h.anchorPatience, h.cfg.Settings.AdvanceDeadline)
		actx, cancel := context.WithCancel(ctx)
		h.anchorStop = cancel
		h.workers.Go(func() {
			r := result{anchor: AnchorAdvance, name: conn.name, conn: conn}
			r.err = h.panics.Do("anchor", h.log, func() (err error) {
				r.lsn, err = conn.advance(actx, target, tli, patience)
				return err
			})
			h.results <- r
		})
	case AnchorClose:
		h.giveUpAnchor(d.Anchor.Why, "")
	}
	since := time.Since(h.lastAsk)
	now, soon := d.NeedSnapshot, d.CascadeWaits || d.FoundWaits || d.Reread > rereadLimit
	if now && since > snapshotInterval || soon && since > rereadInterval {
		h.lastAsk = time.Now()
		h.snapshots++
		if h.cfg.RequestSnapshot != nil {
			h.cfg.RequestSnapshot()
		}
	}
}

func (h *Helper) settleAnchor(r result) {
	if r.name != h.anchor.Name { // given up meanwhile
		if r.conn != nil {
			r.conn.close()
		}
		return
	}
	h.anchorStop()
	h.anchorStop = nil
	switch {
	case r.err != nil && r.anchor == AnchorAdvance && classify(r.err) == ReasonNone:
		h.anchor.Phase = AnchorLive // the gate was shut; the anchor has not been touched
	case r.err != nil:
		if r.conn != nil {
			r.conn.close()
		}
		h.anchorConn = nil
		if errors.Is(r.err, errTooSlow) {
			h.anchorPatience = morePatience(cmp.Or(h.anchorPatience, h.cfg.Settings.AdvanceDeadline))
		}
		h.failAnchor(anchorReason(&r), r.err.Error())
	case r.anchor == AnchorCreate:
		h.anchorConn = r.conn
		h.anchor.Phase, h.anchor.Position, h.anchor.LastAdvance = AnchorLive, r.lsn, time.Now()
		h.anchor.LastError, h.anchor.LastDetail, h.anchor.RetryWait = ReasonNone, "", 0
		delete(h.said, "anchor")
		h.log.Info().Str("anchor", h.anchor.Name).Stringer("confirmed_flush_lsn", r.lsn).
			Dur("took", time.Since(h.anchor.Started)).Msg("anchor made")
	default:
		h.anchor.Phase, h.anchor.Position, h.anchor.LastAdvance = AnchorLive, r.lsn, time.Now()
		h.anchorPatience = 0
	}
}

// anchorReason is classify for the anchor, whose session speaks the replication
// protocol and needs more than an ordinary one.
func anchorReason(r *result) Reason {
	var refused *pgconn.ConnectError
	connected := !errors.As(r.err, &refused)
	switch code := sqlState(r.err); {
	case !connected && code == codePrivilege:
		return ReasonPrivilege // a role without REPLICATION
	case connected && r.anchor == AnchorCreate && code == codeNotPrerequisite:
		return ReasonWALLevel // of the primary: that of the standby has been looked at
	}
	return classify(r.err)
}

// failAnchor goes back to no anchor, with the reason kept until there is one.
func (h *Helper) failAnchor(why Reason, detail string) {
	wait := retryWait(h.anchor.RetryWait, h.anchor.LastError == why)
	h.anchor = Anchor{LastError: why, LastDetail: detail, RetryAt: time.Now().Add(wait), RetryWait: wait}
	if why != ReasonNone {
		h.say("anchor", string(why), h.log.Warn().Str("reason", string(why)).Str("detail", detail).
			Str("hint", why.Hint()), "there is no anchor: no new slot can be made, slots that are ready stay so")
	}
}

// giveUpAnchor ends the anchor's session. The next try waits ever longer while the
// reason stays the same.
func (h *Helper) giveUpAnchor(why Reason, detail string) {
	last := Anchor{LastError: h.anchor.LastError, RetryWait: h.anchor.RetryWait}
	h.closeAnchor()
	if why != ReasonNotInRecovery {
		h.anchor = last
		h.failAnchor(why, detail)
	}
}

// closeAnchor ends the anchor's session, whatever it is doing.
func (h *Helper) closeAnchor() {
	if h.anchorStop != nil {
		h.anchorStop() // ends a create or an advance; settleAnchor closes its session
		h.anchorStop = nil
	}
	if h.anchorConn != nil && h.anchor.Phase != AnchorMoving {
		h.anchorConn.close()
	}
	h.anchorConn = nil
	h.anchor = Anchor{}
}

func newAnchorName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	return anchorPrefix + hex.EncodeToString(b[:])
}
