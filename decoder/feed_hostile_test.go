package decoder

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
)

// feedFromRelay runs a Feed against a relay that logs everybody in, answers
// SLOT_STATE, says speech, and waits for the end. before is called before it runs.
func feedFromRelay(t *testing.T, speech []byte, before ...func(*Feed)) (h *Helper, log *syncBuffer, ended <-chan struct{}) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log = new(syncBuffer)
	if h, err = New(Config{Standby: "host=localhost", StateDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	f, err := NewFeed(FeedConfig{Helper: h, Logger: zerolog.New(log),
		Upstream: fmt.Sprintf("host=127.0.0.1 port=%d user=x sslmode=disable", lis.Addr().(*net.TCPAddr).Port)})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range before {
		change(f)
	}
	over := make(chan struct{}, 100)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			sayAsRelay(conn, speech)
			over <- struct{}{}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() { _ = f.Run(ctx) }) // never an error
	t.Cleanup(func() {
		cancel()
		_ = lis.Close()
		wg.Wait()
		if t.Failed() {
			t.Logf("log:\n%s", log)
		}
	})
	return h, log, over
}

// sayAsRelay is one connection to that relay, until the Feed ends it.
func sayAsRelay(conn net.Conn, speech []byte) {
	defer conn.Close()
	read := func(n int) []byte {
		b := make([]byte, n)
		_, _ = io.ReadFull(conn, b) // what is missing shows in what follows
		return b
	}
	startup := read(4)
	read(int(binary.BigEndian.Uint32(startup)) - 4)
	_, _ = conn.Write(protocol.AppendReadyForQuery([]byte("R\x00\x00\x00\x08\x00\x00\x00\x00K\x00\x00\x00\x0c\x00\x00\x00\x01\x00\x00\x00\x02")))
	read(len("Q\x00\x00\x00\x0fSLOT_STATE\x00"))
	_, _ = conn.Write(append(protocol.AppendCopyBothResponse(nil), speech...))
	_, _ = io.Copy(io.Discard, conn)
}

func slotFrames(t *testing.T, m *protocol.SlotMessage) []byte {
	t.Helper()
	parts, err := m.Parts(0)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for _, p := range parts {
		b = append(b, protocol.AppendSlotFrame(nil, 1, 1, p)...)
	}
	return b
}

// A relay that floods a sidecar helper with what cannot be read, among it messages of
// another kind and of no kind at all: one line for each connection, and the good
// message behind it is taken.
func TestFeedFromADamagedRelay(t *testing.T) {
	good := slotFrames(t, &protocol.SlotMessage{SystemIdentifier: 7, Epoch: 1, Sequence: 1})
	bad := bytes.Clone(good)
	bad[len(bad)-1] ^= 1
	var speech []byte
	for range 1000 {
		speech = append(speech, bad...)
	}
	for _, body := range []string{"", "w", "k", "\x00\xff", "wSLTFERRY", strings.Repeat("z", 1000)} {
		speech = append(speech, protocol.AppendCopyData(nil, []byte(body))...)
	}
	h, log, _ := feedFromRelay(t, append(speech, good...))
	poll.Require(t, time.Minute, "the good message", func(context.Context) (bool, string) {
		m := h.inbox.get().Message
		return m != nil && m.SystemIdentifier == 7, log.String()
	})
	if n := strings.Count(log.String(), "cannot be read"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
}

// A length that no slot message has, negative or of a gigabyte, ends the connection
// and allocates nothing; the same again is not logged again.
func TestFeedRefusesInsaneLengths(t *testing.T) {
	for _, length := range []uint32{0, 3, feedMaxBody + 5, 1 << 30, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		t.Run(fmt.Sprintf("%#x", length), func(t *testing.T) {
			t.Parallel()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, log, ended := feedFromRelay(t, binary.BigEndian.AppendUint32([]byte{'d'}, length))
			for range 2 {
				select {
				case <-ended:
				case <-time.After(time.Minute):
					t.Fatal("the connection stays open")
				}
			}
			runtime.ReadMemStats(&after)
			if grown := after.HeapSys - before.HeapSys; int64(grown) > 64<<20 {
				t.Errorf("the heap has grown by %d MiB", grown>>20)
			}
			if n := strings.Count(log.String(), "feed from the relay is down"); n != 1 {
				t.Errorf("logged %d times, want once", n)
			}
		})
	}
}
