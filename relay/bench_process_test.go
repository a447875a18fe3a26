package relay

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/protocol"
)

// benchVariable makes this test binary a relay for internal/bench, that publishes
// slot messages faster than any slot source would: its value is the address to
// listen on, the upstream conninfo, the time between messages, and "publish", or
// "keep" for a relay that makes as many and splices none, with | between them.
const benchVariable = "SLOTFERRY_BENCH_RELAY"

func TestMain(m *testing.M) {
	text := os.Getenv(benchVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	if err := runForBench(strings.Split(text, "|")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runForBench(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("%d settings, want address, conninfo, time and publish or keep", len(args))
	}
	every, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	source, err := NewSlotSource(SlotSourceConfig{Conninfo: args[1], Logger: zerolog.Nop()})
	if err != nil {
		return err
	}
	r, err := New(Config{Mode: ModeSplice, Listen: args[:1], Upstream: args[1], Slots: source, Logger: zerolog.Nop()})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	publish := source.publish
	if args[3] == "keep" {
		publish = func(*publication) {}
	}
	go publishEvery(ctx, publish, every)
	return r.Run(ctx)
}

// publishEvery publishes messages of five slots, as they differ from one to the
// next.
func publishEvery(ctx context.Context, publish func(*publication), every time.Duration) {
	m := protocol.SlotMessage{Epoch: 9, SystemIdentifier: 7, CaptureLSN: 0x3000100}
	for i := range 5 {
		m.Slots = append(m.Slots, protocol.SlotState{Name: "subscription_" + strconv.Itoa(i), Plugin: "pgoutput", Database: "postgres"})
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		next := m
		m.Sequence++
		parts, err := next.Parts(0)
		if err != nil {
			panic(err) // five slots fit
		}
		publish(&publication{message: &next, parts: parts})
	}
}
