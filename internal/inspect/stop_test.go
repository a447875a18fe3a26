package inspect

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
)

// stopping ends a context when part of it was read, and goes on: as tcpdump does,
// for a moment, after a Ctrl-C.
type stopping struct {
	io.Reader
	left int
	stop func()
}

func (s *stopping) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b[:min(len(b), 512)])
	if s.left -= n; s.left <= 0 {
		s.stop()
	}
	return n, err
}

// Ctrl-C is the end of an input that comes through a pipe. It was an error, and a
// summary was never printed.
func TestStoppedIsDone(t *testing.T) {
	data := readFile(t, session)
	for name, input := range map[string][]byte{
		"capture": data,
		"pcap":    classic(t, packetsOf(t, data, func() int { return 300 }, true), "ethernet", 262144),
	} {
		for _, o := range []Options{{At: -1, Summary: true}, {At: -1, Live: true}} {
			ctx, cancel := context.WithCancel(t.Context())
			var out bytes.Buffer
			in := &stopping{bytes.NewReader(input), len(input) / 2, cancel}
			if err := Run(ctx, in, &out, o); err != nil {
				t.Errorf("%s, %+v: %v", name, o, err)
			}
			if n := strings.Count(out.String(), "\n"); n < 10 || o.Summary && !strings.Contains(out.String(), "bytes") {
				t.Errorf("%s, %+v: %d lines:\n%s", name, o, n, out.String())
			}
			cancel()
		}
	}
}
