package decoder

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNobodyReached means that no slot message came because nobody answers where it
// should come from.
var ErrNobodyReached = errors.New("nobody answers")

// Plan decides once, as Run would at its first look, and does nothing: no slot, no
// session for one, no ledger is touched. It waits for a first slot message, which
// Deliver brings, until the context ends. A ledger that is there is read.
func (h *Helper) Plan(ctx context.Context) (Decision, error) {
	defer h.shutdown()
	rows, found, err := readLedger(h.cfg.StateDir)
	if err != nil {
		return Decision{}, err
	}
	tick := time.NewTicker(lookInterval / 4)
	defer tick.Stop()
	for h.inbox.get().Message == nil {
		select {
		case <-ctx.Done():
			up := h.inbox.get()
			switch up.Trouble {
			case ReasonNone:
			case ReasonUpstreamUnreachable:
				return Decision{}, fmt.Errorf("wait for a slot message: %s: %w", up.TroubleDetail, ErrNobodyReached)
			default:
				return Decision{}, fmt.Errorf("wait for a slot message: %s: %w", up.TroubleDetail, ctx.Err())
			}
			return Decision{}, fmt.Errorf("wait for a slot message: %w", ctx.Err())
		case <-tick.C:
		}
	}
	if err := h.observe(ctx); err != nil {
		return Decision{}, err
	}
	h.node = h.identity()
	if why := rows.foreignTo(h.node); why != "" {
		rows = ledgerBody{}
		if found {
			h.log.Warn().Str("detail", why).Str("hint", otherNodeHint).Msg("ledger is not of this node and is left out")
		}
	}
	h.ledger = &Ledger{body: rows}
	h.protection = h.ledger.Protection()
	for name, row := range rows.Slots {
		h.tracks[name] = row.track()
	}
	up := h.takeMessage(h.inbox.get())
	h.readSwitches(ctx)
	view := h.view(up)
	return Decide(&view), nil
}
