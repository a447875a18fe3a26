package decoder

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A promotion that takes long is not taken for a helper that is stuck: its status
// stays new, and says how far it is.
func TestStatusWhileAPromotionIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := New(Config{Standby: "host=/nonexistent", StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		p := h.showPromotion(3)
		for _, done := range []string{"0 of 3", "1 of 3", "2 of 3"} {
			st := h.Status()
			if age := time.Since(st.Time); age > progressInterval {
				t.Errorf("the status is %s old", age)
			}
			if st.Role != RolePrimary || st.Reason != ReasonNotInRecovery || !strings.Contains(st.Detail, done) || st.Promotion != nil {
				t.Errorf("%+v, want %s", st, done)
			}
			p.done.Add(1)
			time.Sleep(20 * time.Second) // of the bubble's clock
		}
		p.stop()
		last := h.Status().Time
		time.Sleep(time.Minute)
		if now := h.Status().Time; now != last {
			t.Error("the status goes on after the end")
		}
	})
}
