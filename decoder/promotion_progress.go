package decoder

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// progressInterval is how often the status of a promotion that goes on is new.
const progressInterval = time.Second

// promotionProgress shows how many slots of a promotion are done. The last advances
// can take half a minute, and a status that is older than a few seconds says that
// the helper is stuck.
type promotionProgress struct {
	of   int
	done atomic.Int64

	stopped chan struct{}
	wg      sync.WaitGroup
}

// showPromotion publishes the progress until stop is called. Nobody else publishes
// in that time.
func (h *Helper) showPromotion(slots int) *promotionProgress {
	p := &promotionProgress{of: slots, stopped: make(chan struct{})}
	st := *h.status.Load()
	st.Role, st.Reason, st.Hint = RolePrimary, ReasonNotInRecovery, "The last advances end by themselves. A slot that is wanted now can be used now."
	publish := func() {
		now := st
		now.Time, now.Detail = time.Now(), p.String()
		h.status.Store(&now)
	}
	publish()
	p.wg.Go(func() {
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				publish()
			case <-p.stopped:
				return
			}
		}
	})
	return p
}

// String says it on one line.
func (p *promotionProgress) String() string {
	return fmt.Sprintf("the promotion is being finished: %d of %d slots are done", p.done.Load(), p.of)
}

// stop returns when nothing is published any more.
func (p *promotionProgress) stop() {
	close(p.stopped)
	p.wg.Wait()
}
