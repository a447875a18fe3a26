package protocol

import (
	"os"
	"testing"
)

// recorded are the messages of a session between a real walreceiver and a real
// walsender, which fuzzing starts from: startup packets whole, every other frame
// by its type, and what is in CopyData by the type of that.
type recorded struct {
	startup [][]byte
	frames  map[byte][][]byte // whole frames
	copied  map[byte][][]byte // bodies behind the inner type
}

// readRecorded reads the capture that all packages share.
func readRecorded(tb testing.TB) recorded {
	tb.Helper()
	data, err := os.ReadFile("../testdata/capture/session.capture")
	if err != nil {
		tb.Fatal(err)
	}
	type direction struct {
		connection uint32
		kind       CaptureKind
	}
	streams := map[direction][]byte{}
	for data = data[CaptureHeaderLen:]; len(data) > 0; {
		var r CaptureRecord
		size, err := r.Decode(data)
		if err != nil {
			tb.Fatal(err)
		}
		if d := (direction{r.Connection, r.Kind}); r.Kind == CaptureDownstream || r.Kind == CaptureUpstream {
			streams[d] = append(streams[d], r.Payload...)
		}
		data = data[size:]
	}
	found := recorded{frames: map[byte][][]byte{}, copied: map[byte][][]byte{}}
	for d, stream := range streams {
		if d.kind == CaptureUpstream {
			size := int(stream[2])<<8 | int(stream[3])
			found.startup = append(found.startup, stream[:size])
			stream = stream[size:]
		}
		for len(stream) > 0 {
			var h FrameHeader
			if err := h.Decode(stream); err != nil {
				tb.Fatal(err)
			}
			frame := stream[:h.Size()]
			stream = stream[h.Size():]
			found.frames[h.Type] = append(found.frames[h.Type], frame)
			if body := frame[FrameHeaderLen:]; h.Type == 'd' && len(body) > 0 {
				found.copied[body[0]] = append(found.copied[body[0]], body[1:])
			}
		}
	}
	return found
}

// The recorded session has what the fuzz targets want of it.
func TestRecordedSessionHasSeeds(t *testing.T) {
	r := readRecorded(t)
	if len(r.startup) == 0 || len(r.frames['E']) == 0 {
		t.Errorf("%d startup packets, %d errors", len(r.startup), len(r.frames['E']))
	}
	for _, inner := range []byte{MsgXLogData, MsgPrimaryKeepalive, MsgStandbyStatusUpdate, MsgHotStandbyFeedback} {
		if len(r.copied[inner]) == 0 {
			t.Errorf("no message of type %q", inner)
		}
	}
	if len(r.slotMessages()) == 0 {
		t.Error("no slot message")
	}
}

// slotMessages are the bodies of slot messages.
func (r *recorded) slotMessages() (list [][]byte) {
	for _, body := range r.copied[MsgXLogData] {
		var x XLogData
		if x.Decode(body) == nil && x.DataStart == InvalidLSN {
			list = append(list, x.Data)
		}
	}
	return list
}

// addSeeds adds up to ten of them, none too long to be varied.
func addSeeds(f *testing.F, seeds [][]byte, add func(seed []byte)) {
	f.Helper()
	for i, seed := range seeds {
		if i < 10 && len(seed) <= 8<<10 {
			add(seed)
		}
	}
}
