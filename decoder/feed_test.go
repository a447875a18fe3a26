package decoder

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A relay that sends slot messages and takes no reports, as behind a network that is
// broken in one direction: the reports waited for ever, with the feed looking well.
func TestReportThatCannotBeSentEndsTheFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := New(Config{Standby: "host=localhost", StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		f, err := NewFeed(FeedConfig{Upstream: "host=localhost", Helper: h})
		if err != nil {
			t.Fatal(err)
		}
		ours, relays := net.Pipe()
		began := time.Now()
		f.sendReports(t.Context(), ours)
		if took := time.Since(began); took != feedSilence {
			t.Errorf("gave up after %s", took)
		}
		if _, err := relays.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection is not closed: %v", err)
		}
	})
}
