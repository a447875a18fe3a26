package relay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/capture"
	"github.com/slotferry/slotferry/protocol"
)

// Every cut of recorded conversations with a real server: in each frame its first
// and last bytes, where headers are.
func TestCutRecordedConversations(t *testing.T) {
	streams := 0
	for id, list := range recorded(t, "../testdata/capture/session.capture") {
		t.Run(fmt.Sprint(id), func(t *testing.T) {
			allow(list)
			checkCuts(t, list, everyByte(list, 40))
		})
		if slices.ContainsFunc(list, func(s said) bool { return s.may }) {
			streams++
		}
	}
	if streams == 0 {
		t.Error("no recorded conversation has a place for a frame of ours")
	}
}

// recorded reads the conversations of a capture, by connection, without startup
// packets and without the slot messages that were spliced in when it was made.
func recorded(t *testing.T, path string) map[uint32][]said {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := capture.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lists := map[uint32][]said{}
	rest := map[uint32]*[2][]byte{}
	for {
		var rec protocol.CaptureRecord
		switch err := r.Next(&rec); {
		case errors.Is(err, io.EOF):
			return lists
		case err != nil:
			t.Fatal(err)
		}
		if rest[rec.Connection] == nil {
			rest[rec.Connection] = new([2][]byte)
		}
		dir := Downstream
		switch rec.Kind {
		case protocol.CaptureUpstream:
			dir = Upstream
		case protocol.CaptureDownstream:
		default:
			continue
		}
		b := &rest[rec.Connection][dir]
		*b = append(*b, rec.Payload...)
		for len(*b) >= protocol.FrameHeaderLen {
			if dir == Upstream && (*b)[0] == 0 { // a startup packet
				*b = (*b)[int((*b)[2])<<8|int((*b)[3]):]
				continue
			}
			var h protocol.FrameHeader
			if err := h.Decode(*b); err != nil {
				t.Fatal(err)
			}
			if h.Size() > len(*b) {
				break
			}
			frame := (*b)[:h.Size()]
			*b = (*b)[h.Size():]
			if !ours(frame) {
				lists[rec.Connection] = append(lists[rec.Connection], said{dir: dir, frame: bytes.Clone(frame)})
			}
		}
	}
}

// ours reports whether a frame is a slot message.
func ours(frame []byte) bool {
	const at = protocol.FrameHeaderLen + protocol.XLogDataHeaderLen
	return frame[0] == protocol.FrameCopyData && len(frame) > at+len(protocol.SlotMagic) && protocol.HasSlotMagic(frame[at:at+len(protocol.SlotMagic)])
}

var startsPhysical = regexp.MustCompile(`^START_REPLICATION (SLOT \S+ )?(PHYSICAL )?[0-9A-F]+/[0-9A-F]+( TIMELINE \d+)?$`)

// allow marks the frames that one of ours may follow.
func allow(list []said) {
	command, owed, open := "", 0, false
	for i := range list {
		s := &list[i]
		kind := string(s.frame[0])
		switch {
		case s.dir == Upstream && kind == "Q":
			command, owed, open = string(bytes.TrimRight(s.frame[protocol.FrameHeaderLen:], "\x00")), owed+1, false
		case s.dir == Upstream && strings.Contains("cfX", kind), s.dir == Downstream && strings.Contains("cEC", kind):
			open = false
		case s.dir == Downstream && kind == "W":
			open = owed == 1 && startsPhysical.MatchString(command)
		case s.dir == Downstream && kind == "Z":
			owed, open = max(owed-1, 0), false
		}
		s.may = open && s.dir == Downstream
	}
}
