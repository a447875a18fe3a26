package rig

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/slotferry/slotferry/internal/cluster/clustertest"
)

// A thousand slots with names of 63 bytes: all become ready, and what relay and
// helper take of memory stays bounded. One major does: nothing here is the
// server's.
func TestThousandSlots(t *testing.T) {
	const slots = 1000
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		p := newTestPairOf(t, major, Config{Mode: Inline, Settings: map[string]string{
			"max_replication_slots": "1100", "autovacuum": "off",
		}})
		p.waitAnchor(p.B)
		began := time.Now()
		clustertest.Exec(t, p.A.Server, "postgres", "SELECT pg_create_logical_replication_slot('first', 'test_decoding')",
			fmt.Sprintf("SELECT pg_copy_logical_replication_slot('first', rpad('slot_' || g || '_', 63, 'x')) FROM generate_series(2, %d) g", slots))
		made := time.Since(began)
		ready := func(ctx context.Context) (n int, detail string) {
			st, err := p.B.Status(ctx)
			if err != nil {
				return 0, err.Error()
			}
			for i := range st.Slots {
				if st.Slots[i].State == "ready" {
					n++
				} else {
					detail = fmt.Sprintf("%+v", st.Slots[i])
				}
			}
			return n, fmt.Sprintf("%d of %d ready; %s", n, len(st.Slots), detail)
		}
		deadline := 3 * waitTime
		p.untilWithin(deadline, "all slots to be ready", func(ctx context.Context) (bool, string) {
			n, detail := ready(ctx)
			return n == slots, detail
		})
		t.Logf("%d slots made upstream in %s, all ready after %s; RSS relay %d MiB, helper %d MiB (race detector included)", slots,
			made.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), rss(t, p.A.Relay)>>20, rss(t, p.B.Helper)>>20)
		for _, proc := range []*Process{p.A.Relay, p.B.Helper} {
			if n := rss(t, proc); n > 512<<20 {
				t.Errorf("%s takes %d MiB", proc.name, n>>20)
			}
		}
		p.flows()
	})
}
