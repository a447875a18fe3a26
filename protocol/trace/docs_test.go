package trace

import (
	"os"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/protocol"
)

// TestDocsNameEveryMessage keeps the contract complete.
func TestDocsNameEveryMessage(t *testing.T) {
	page, err := os.ReadFile("../../docs/debug.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for c := range 256 {
		names = append(names, protocol.DownstreamFrameName(byte(c)), protocol.UpstreamFrameName(byte(c)),
			(&protocol.LogicalMessage{Type: byte(c)}).MessageName(), (&protocol.Authentication{Request: uint32(c)}).Name())
	}
	for _, name := range names {
		if name != "" && !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/debug.md does not name %s", name)
		}
	}
}
