package statusserver

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

// A database may have any bytes for a name. One label that Prometheus does not take
// would cost all metrics.
func TestLabelsThatAreNotUTF8(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(func() statusdoc.Document {
		return statusdoc.Document{Helper: &decoder.Status{Slots: []decoder.SlotStatusJSON{
			{Name: "s", Database: "caf\xe9", State: decoder.StateBlocked, Reason: decoder.ReasonError},
		}}}
	}))
	families, err := registry.Gather()
	if err != nil || len(families) == 0 {
		t.Errorf("%d metrics, %v", len(families), err)
	}
}
