package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/protocol"
)

// upstreamHelper asks the helper of the upstream, which is a standby itself,
// which of its slots are ready.
type upstreamHelper struct {
	client *statusdoc.Client
	url    string
}

func (u upstreamHelper) readiness(ctx context.Context) (map[string]protocol.Readiness, error) {
	d, err := u.client.Read(ctx, u.url)
	if err != nil {
		return nil, err
	}
	return readinessOf(d)
}

// readinessOf maps what a helper says of its slots. A document that is not of a
// helper, or of one that is stuck, says nothing of any slot.
func readinessOf(d *statusdoc.Document) (map[string]protocol.Readiness, error) {
	if d.Helper == nil {
		return nil, errors.New("read readiness of the upstream's slots: the process at --helper-url has no helper")
	}
	for _, n := range d.NotReady {
		if n.Part == "helper" && n.Reason == statusdoc.ReasonStatusStale {
			return nil, fmt.Errorf("read readiness of the upstream's slots: %s: %s", n.Reason, n.Detail)
		}
	}
	ready := make(map[string]protocol.Readiness, len(d.Helper.Slots))
	for i := range d.Helper.Slots {
		s := &d.Helper.Slots[i]
		ready[s.Name] = protocol.ReadinessNotReady
		if s.State == decoder.StateReady && d.Helper.Role == decoder.RoleStandby && d.Helper.Reason == decoder.ReasonNone {
			ready[s.Name] = protocol.ReadinessReady
		}
	}
	return ready, nil
}
