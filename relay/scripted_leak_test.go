package relay

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

// leakCycles is how many sessions come and go.
const leakCycles = 1000

// leakWatch sees whether what a relay needs is flat: goroutines and descriptors of
// this process.
type leakWatch struct {
	s               *scripted
	goroutines, fds int
	left            []net.Conn // ends that only the relay can end
}

// settle waits until the relay has no sessions, closes what is left, and waits until
// ok says that this is what it should be.
func (w *leakWatch) settle(what string, ok func(goroutines, fds int) bool) {
	w.s.t.Helper()
	eventually(w.s.t, what, func() (bool, string) {
		n := len(w.s.relay.Status().Sessions)
		if n == 0 {
			for _, conn := range w.left {
				_ = conn.Close()
			}
			w.left = nil
		}
		goroutines, fds := runtime.NumGoroutine(), openFiles(w.s.t)
		return n == 0 && ok(goroutines, fds), fmt.Sprintf("%d goroutines, %d fds, %d sessions", goroutines, fds, n)
	})
}

// run has sessions come and go, one at least before it counts.
func (w *leakWatch) run(cycle func(i int)) {
	w.s.t.Helper()
	cycle(1)
	w.settle("a baseline", func(goroutines, fds int) bool { w.goroutines, w.fds = goroutines, fds; return true })
	for i := range leakCycles {
		cycle(i)
		if i%100 == 0 {
			w.settle("no sessions", func(int, int) bool { return true })
		}
	}
	w.settle("the baseline again", func(goroutines, fds int) bool { return goroutines <= w.goroutines+2 && fds <= w.fds+2 })
	if st := w.s.relay.Status(); st.Accepted != leakCycles+1 {
		w.s.t.Errorf("accepted %d", st.Accepted)
	}
	if strings.Contains(w.s.log.String(), "panic") {
		w.s.t.Error(w.s.log.String())
	}
}

// drop ends one end of a session, by a reset if so asked, and leaves the other to the
// relay.
func (w *leakWatch) drop(reset bool, first, second *peer) {
	if reset {
		_ = first.conn.(*net.TCPConn).SetLinger(0)
	}
	_ = first.conn.Close()
	if second != nil {
		w.left = append(w.left, second.conn)
	}
}

// Neither goroutines nor file descriptors are left behind by streams, whichever side
// dies and whenever.
func TestKillCyclesLeaveNothing(t *testing.T) {
	source := testSource(t)
	publishSlots(t, source, 1, 1)
	w := &leakWatch{s: newScripted(t, Config{Mode: ModeSplice, Slots: source, DrainTimeout: 100 * time.Millisecond})}
	w.run(func(i int) {
		pairs := marked
		if i%2 == 0 {
			pairs = []string{"user", "a", "replication", "true"}
		}
		downstream, upstream := w.s.stream(pairs...)
		publishSlots(t, source, uint64(i+2), 1)
		f := walFrame(0x3000000, 2000)
		_, _ = upstream.conn.Write(f[:i*7%len(f)])
		first, second := downstream, upstream
		if i%3 == 0 {
			first, second = second, first
		}
		if i%4 != 0 {
			_ = second.conn.Close()
			second = nil
		}
		w.drop(i%5 == 0, first, second)
	})
}

// The same for sessions that are dropped at any byte of a conversation: of the
// startup packet, the login, an IDENTIFY_SYSTEM, a stream.
func TestDropsAtAnyByteLeaveNothing(t *testing.T) {
	source := testSource(t)
	publishSlots(t, source, 1, 1)
	w := &leakWatch{s: newScripted(t, Config{Mode: ModeSplice, Slots: source, DrainTimeout: 100 * time.Millisecond})}
	feedback := protocol.StandbyStatusUpdate{Write: 0x3000000}
	steps := []struct {
		up    bool // said by the upstream
		bytes []byte
	}{
		{false, startup("user", "a", "replication", "true")}, {true, loginAnswer},
		{false, query("IDENTIFY_SYSTEM")}, {true, protocol.AppendReadyForQuery(protocol.AppendCommandComplete(nil, "IDENTIFY_SYSTEM"))},
		{false, query("START_REPLICATION SLOT \"s\" 0/3000000 TIMELINE 1")}, {true, protocol.AppendCopyBothResponse(nil)},
		{true, walFrame(0x3000000, 50)}, {false, protocol.AppendCopyData(nil, feedback.Append(nil))}, {true, walFrame(0x3001000, 50)},
	}
	total := 0
	for _, step := range steps {
		total += len(step.bytes)
	}
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	w.run(func(int) {
		at := rng.IntN(total)
		downstream := w.s.connect()
		var upstream *peer
		for _, step := range steps {
			says, hears := downstream, upstream
			if step.up {
				says, hears = upstream, downstream
			}
			says.send(step.bytes[:min(at, len(step.bytes))])
			if at < len(step.bytes) {
				break
			}
			at -= len(step.bytes)
			if upstream == nil { // it is reached when the startup packet is whole
				upstream = w.s.accept()
				upstream.startup()
				continue
			}
			hears.expect(step.bytes)
		}
		if upstream != nil && rng.IntN(2) == 0 {
			w.drop(rng.IntN(3) == 0, upstream, downstream)
			return
		}
		w.drop(rng.IntN(3) == 0, downstream, upstream)
	})
}

func openFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(list)
}
