package rig

import (
	"context"
	"fmt"
	"time"

	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
)

// copyMoment says when a round adds a table to the subscription.
type copyMoment int

const (
	copyNever        copyMoment = iota
	copyWhileStalled            // while the standby's network fails for the first time
	copyBeforeTheEnd            // a moment before the primary dies, or the network before it
	copyAtTheEnd                // as the network fails, and the primary is about to die
	copyMoments
)

// String names the moment.
func (m copyMoment) String() string {
	return [...]string{"never", "while stalled", "before the end", "at the end"}[m]
}

// copyState is how far the subscriber is with a table: pg_subscription_rel's letter,
// or "-" when it has not begun.
func (p *holdBackPair) copyState(table string) string {
	p.t.Helper()
	return clustertest.Value[string](p.t, p.subscriber, "postgres",
		"SELECT coalesce((SELECT srsubstate::text FROM pg_subscription_rel WHERE srrelid = $1::regclass), '-')", table)
}

// copyBegins waits until the subscriber has begun to copy a table, but not for long: an
// apply worker in the middle of a transaction that is held starts no copy.
func (p *holdBackPair) copyBegins(table string) {
	p.t.Helper()
	_ = poll.Until(p.t.Context(), 2*time.Second, "the copy to begin", func(context.Context) (bool, string) {
		s := p.copyState(table)
		return s != "i", s
	})
}

// endCopy does what an operator does about an initial copy that a failover has cut
// off. While it was being read (d) the worker begins anew by itself. When it had been
// read, and its changes were still to come (f), the slot that has them was on the old
// primary alone: the worker says so for ever, and the table is copied again. No row of
// it may be one that the new primary does not have, before that already.
func (p *holdBackPair) endCopy(table string) (again bool) {
	p.t.Helper()
	if _, extra := p.compareTable(p.B, table); len(extra) > 0 {
		p.t.Errorf("the table that was added: extra %v, right after the failover", extra)
	}
	if p.copyState(table) != "f" {
		return false
	}
	clustertest.Exec(p.t, p.B.Server, "postgres", "CREATE PUBLICATION others FOR TABLE t")
	clustertest.Exec(p.t, p.subscriber, "postgres", "ALTER SUBSCRIPTION sub SET PUBLICATION others",
		fmt.Sprintf("TRUNCATE %s", table), "ALTER SUBSCRIPTION sub SET PUBLICATION p")
	return true
}
