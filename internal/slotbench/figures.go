package main

import (
	"math"
	"slices"
	"time"
)

// quantiles sum many figures up.
type quantiles struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// quantilesOf takes the nearest ranks. Nothing has quantiles of 0.
func quantilesOf(list []float64) quantiles {
	if len(list) == 0 {
		return quantiles{}
	}
	sorted := slices.Sorted(slices.Values(list))
	rank := func(q float64) float64 { return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)] }
	return quantiles{N: len(sorted), P50: rank(0.5), P90: rank(0.9), P99: rank(0.99), Max: sorted[len(sorted)-1]}
}

// births are the times from the return of a creation until the slot was ready, in
// milliseconds.
type births struct {
	quantiles
	Late int `json:"not_within_bound"` // not ready when the wait ended; counted as ready then
}

func birthsOf(born, ready map[string]time.Time, end time.Time) births {
	var list []float64
	b := births{}
	for slot, at := range born {
		when, ok := ready[slot]
		if !ok {
			b.Late++
			when = end
		}
		list = append(list, milliseconds(max(0, when.Sub(at)))) // seen ready before the creation's return was
	}
	b.quantiles = quantilesOf(list)
	return b
}

// failover is what became of the subscribers of one standby.
type failover struct {
	PromotedMs   float64 `json:"promoted_ms"`   // from the order until the server was writable
	SlotsDoneMs  float64 `json:"slots_done_ms"` // from then until nothing more was done to the slots
	Rows         int     `json:"rows"`          // of the new primary
	SlotsMissing int     `json:"slots_missing"`

	// A subscriber that asks for where the slot is (0/0).
	Again quantiles `json:"rows_again"` // of each subscriber
	Lost  int       `json:"rows_lost"`  // of all subscribers

	// One that goes on from its own position, as a subscription does.
	AgainFromOwn int `json:"rows_again_from_own_position"`
	LostFromOwn  int `json:"rows_lost_from_own_position"`

	Ahead int `json:"rows_ahead"` // that subscribers have and the new primary has not

	again []float64
}

// stage is all figures of one number of slots.
type stage struct {
	Slots      int     `json:"slots"`
	LoadBefore float64 `json:"load_average_before"`
	LoadAfter  float64 `json:"load_average_after"`
	WALRate    float64 `json:"wal_bytes_per_second"`

	AllReady  pairOf[float64]   `json:"all_ready_ms"`
	LagMs     pairOf[quantiles] `json:"lag_ms"`
	LagBytes  pairOf[quantiles] `json:"lag_bytes"`
	CPU       pairOf[[]float64] `json:"standby_cpu"` // shares of one core, window by window
	ReaderCPU pairOf[[]float64] `json:"primary_cpu"`
	RelayCPU  []float64         `json:"relay_cpu"` // it forwards WAL, too
	Memory    int64             `json:"helper_bytes"`
	Retained  uint64            `json:"retained_bytes"` // most WAL that one of slotferry's slots kept
	Anchor    anchorFigures     `json:"anchor"`
	Messages  quantiles         `json:"slot_message_ms"`
	Births    *pairOf[births]   `json:"births,omitempty"`
	Failover  pairOf[failover]  `json:"failover"`
}
