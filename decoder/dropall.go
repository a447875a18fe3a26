package decoder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrNotStandby means that a server is no standby, so that its slots are their
// subscribers' and not a helper's to drop.
var ErrNotStandby = errors.New("the server is not a standby: its slots are their subscribers'")

// What keeps DropAll from knowing which slots are the helper's. It must not be told
// from a standby without any by silence.
var (
	ErrNoLedger  = errors.New("no helper has run with this state directory: it has no ledger")
	ErrOtherNode = errors.New("the ledger in this state directory is another node's")
)

// DropAll drops every slot on the standby that the ledger says is the helper's,
// for taking slotferry out of service. It returns the names of those it dropped.
// What it cannot drop is named in the error, and stays in the ledger: calling it
// again goes on where it stopped. No helper may run on the state directory.
func DropAll(ctx context.Context, cfg Config) (dropped []string, err error) {
	h, err := New(cfg)
	if err != nil {
		return nil, err
	}
	unlock, err := lockStateDir(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer h.shutdown()
	if err := h.observe(ctx); err != nil {
		return nil, err
	}
	if !h.standby.InRecovery {
		return nil, ErrNotStandby
	}
	if err := h.ownLedger(); err != nil {
		return nil, err
	}
	if err := h.openLedger(); err != nil {
		return nil, err
	}
	rows := h.ledger.Rows()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		if row.Released {
			continue
		}
		gone, err := h.dropOwned(ctx, row)
		if gone {
			dropped = append(dropped, name)
		}
		errs = append(errs, err)
	}
	return dropped, errors.Join(errs...)
}

// ownLedger says why the ledger cannot be gone by. It changes nothing: opened, a
// ledger of another node would be set aside.
func (h *Helper) ownLedger() error {
	body, found, err := readLedger(h.cfg.StateDir)
	switch {
	case err != nil:
		return err
	case !found:
		return ErrNoLedger
	}
	if why := body.foreignTo(h.identity()); why != "" {
		return fmt.Errorf("%w: %s", ErrOtherNode, why)
	}
	return nil
}

// dropOwned drops the slot of one row, and then the row. A slot that is not there,
// or is not the one of the row, only loses its row.
func (h *Helper) dropOwned(ctx context.Context, row LedgerRow) (gone bool, err error) {
	step := Step{Kind: StepDrop, Slot: row.Name, Database: row.Database, Plugin: row.Plugin}
	if l, exists := h.standby.Slot(row.Name); exists && row.describes(&l) {
		if err := h.ledger.Update(func(rows map[string]LedgerRow) {
			recordSteps(rows, []Step{step}, h.tracks, &h.standby.Standby, row.Since)
		}); err != nil {
			return false, fmt.Errorf("%w: %w", errLedger, err)
		}
		if err := dropSlot(ctx, h.sessions, step, false); err != nil {
			return false, err
		}
		gone = true
	}
	return gone, h.ledger.Update(func(rows map[string]LedgerRow) { delete(rows, row.Name) })
}
