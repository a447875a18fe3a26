package inspect

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/slotferry/slotferry/internal/pcap"
	"github.com/slotferry/slotferry/protocol"
)

// FuzzCapture checks that no file makes the reader of captures fail, and that
// every byte of it is accounted for.
func FuzzCapture(f *testing.F) {
	data := readFile(f, session)
	f.Add(data[:2600])
	f.Add(data[69000:70000])
	f.Add(data[:30])
	f.Fuzz(func(t *testing.T, data []byte) {
		if !protocol.HasCaptureMagic(data) {
			data = append([]byte(protocol.CaptureMagic), data...)
		}
		p := newPrinter(io.Discard, Options{At: -1, JSON: true})
		if err := p.readCapture(t.Context(), bytes.NewReader(data)); err != nil {
			return // another version, or a damaged header
		}
		_ = p.finish()
		if !p.account.Balanced(int64(len(data))) {
			t.Fatalf("the account of %d bytes does not balance: %+v", len(data), p.account)
		}
	})
}

// FuzzPackets does so for packet captures.
func FuzzPackets(f *testing.F) {
	list := packetsOf(f, readFile(f, session), func() int { return 300 }, true)[:60]
	for link := range links {
		f.Add(classic(f, list, link, 262144))
	}
	f.Add(classic(f, list[5:], "ethernet", 100))
	f.Add(ng(f, list[:20]))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !pcap.HasMagic(data) {
			return
		}
		p := newPrinter(io.Discard, Options{At: -1})
		err := p.readPackets(context.Background(), bytes.NewReader(data))
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		if err != nil {
			return // not even a header
		}
		_ = p.finish()
		if !p.account.Balanced(int64(len(data))) {
			t.Fatalf("the account of %d bytes does not balance: %+v", len(data), p.account)
		}
	})
}
