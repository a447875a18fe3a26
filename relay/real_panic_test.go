package relay_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// A panic in the middle of reading slots costs that connection and nothing else: it is
// closed, another one is made after the usual pause, and messages come from it.
func TestPanicOfTheSlotSourceCostsItsConnection(t *testing.T) {
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		primary := clustertest.Primary(t, major, cluster.Config{})
		log := new(testLog)
		var panicked atomic.Int32
		logger := zerolog.New(log).Hook(zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, msg string) {
			if msg == "reading slots" && panicked.Add(1) <= 2 { // said when the first look has been taken
				panic("slot source")
			}
		}))
		source, err := relay.NewSlotSource(relay.SlotSourceConfig{Conninfo: primary.Conninfo("postgres"), Logger: logger})
		must(t, err)
		messages := subscribed(t, source)
		stop := runUntilDone(t, "slot source", log, source.Run)
		poll.Require(t, waitTimeout, "the third connection", func(context.Context) (bool, string) {
			st := source.Status()
			return st.Connected && panicked.Load() == 3, fmt.Sprintf("%+v", st)
		})
		clustertest.Exec(t, primary, "postgres", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
		messages.wait(t, "the slot", func(m *protocol.SlotMessage) bool { return len(m.Slots) == 1 })
		if st := source.Status(); st.Panics != 2 || st.Error != "" {
			t.Errorf("%+v", st)
		}
		if n := strings.Count(log.String(), "panic contained"); n != 1 {
			t.Errorf("logged %d times, want once", n)
		}
		sessions := func(want int64) {
			t.Helper()
			poll.Require(t, waitTimeout, "sessions to end", func(context.Context) (bool, string) {
				n := clustertest.Value[int64](t, primary, "postgres", "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'slotferry relay'")
				return n == want, fmt.Sprintf("%d, want %d", n, want)
			})
		}
		sessions(1)
		stop()
		sessions(0)
	})
}
