package relay

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/protocol"
)

// A slot message waits at every moment, and the stream is cut at every byte: what
// is put in stands behind a whole frame, inside a physical copy-both, before either
// side's CopyDone and before an error. Where it may stand is written by hand here,
// or found by rules of a few lines that see whole conversations; the Flows see them
// in pieces.

// said is one frame of a conversation.
type said struct {
	dir   Direction
	frame []byte
	may   bool // a frame of ours may follow
}

func (s said) String() string {
	side := "<"
	if s.dir == Upstream {
		side = ">"
	}
	return fmt.Sprintf("%s %c, %d bytes, may follow: %v", side, s.frame[0], len(s.frame), s.may)
}

// written reads a conversation as transcripts have it; "+" at the end of a line
// says that a frame of ours may follow.
func written(t *testing.T, text string) (list []said) {
	for line := range strings.Lines(text) {
		line, may := strings.CutSuffix(strings.TrimSpace(line), " +")
		if line == "" {
			continue
		}
		side, rest, _ := strings.Cut(line, " ")
		name, argument, _ := strings.Cut(rest, " ")
		s := said{frame: transcriptFrame(t, name, argument), may: may}
		if side == ">" {
			s.dir = Upstream
		}
		list = append(list, s)
	}
	return list
}

var conversations = map[string]string{
	"a stream and its end": `
		< AuthenticationOk
		< ReadyForQuery
		> Query IDENTIFY_SYSTEM
		< CommandComplete IDENTIFY_SYSTEM
		< ReadyForQuery
		> Query START_REPLICATION SLOT "s" 0/3000000 TIMELINE 1
		< CopyBothResponse +
		< XLogData 0/3000000 +
		> StandbyStatusUpdate
		< PrimaryKeepalive +
		< XLogData 0/3000100 +
		< CopyDone
		> CopyDone
		< CommandComplete START_STREAMING
		< ReadyForQuery
		> Query START_REPLICATION SLOT "s" 0/4000000 TIMELINE 2
		< CopyBothResponse +
		< NoticeResponse +
		< XLogData 0/4000000 +`,
	"the standby ends it": `
		< AuthenticationOk
		< ReadyForQuery
		> Query START_REPLICATION 0/3000000 TIMELINE 1
		< CopyBothResponse +
		< XLogData 0/3000000 +
		> CopyDone
		< XLogData 0/3000100
		< PrimaryKeepalive
		< CopyDone
		< CommandComplete START_STREAMING
		< ReadyForQuery`,
	"an error in the stream": `
		< AuthenticationOk
		< ReadyForQuery
		> Query START_REPLICATION 0/3000000 TIMELINE 1
		< CopyBothResponse +
		< XLogData 0/3000000 +
		< ErrorResponse requested WAL segment has been removed
		< XLogData 0/3000100
		< ReadyForQuery
		> Query START_REPLICATION 0/3000000 TIMELINE 1
		< CopyBothResponse +
		< ErrorResponse requested WAL segment has been removed
		< ReadyForQuery
		> Query IDENTIFY_SYSTEM
		< CommandComplete IDENTIFY_SYSTEM
		< ReadyForQuery`,
	"the standby breaks off": `
		< AuthenticationOk
		< ReadyForQuery
		> Query START_REPLICATION 0/3000000 TIMELINE 1
		< CopyBothResponse +
		< XLogData 0/3000000 +
		> CopyFail
		< XLogData 0/3000100
		< ErrorResponse COPY from stdin failed
		< ReadyForQuery`,
	"a result set, a base backup, a logical stream": `
		< AuthenticationOk
		< ReadyForQuery
		> Query START_REPLICATION 0/3000000 TIMELINE 1
		< CommandComplete START_STREAMING
		< ReadyForQuery
		> Query BASE_BACKUP
		< CopyOutResponse
		< XLogData 0/3000000
		< CopyDone
		< CommandComplete BASE_BACKUP
		< ReadyForQuery
		> Query START_REPLICATION SLOT "l" LOGICAL 0/3000000
		< CopyBothResponse
		< XLogData 0/3000000
		< PrimaryKeepalive
		< CopyDone
		> CopyDone
		< CommandComplete START_STREAMING
		< ReadyForQuery`,
	"two commands at once": `
		< AuthenticationOk
		< ReadyForQuery
		> Query START_REPLICATION 0/3000000 TIMELINE 1
		> Query IDENTIFY_SYSTEM
		< CopyBothResponse
		< XLogData 0/3000000
		< CopyDone`,
}

// Every cut, and pairs of cuts, of conversations written by hand.
func TestCutAtEveryByte(t *testing.T) {
	for name, text := range conversations {
		t.Run(name, func(t *testing.T) {
			list := written(t, text)
			places := everyByte(list, 1<<20)
			checkCuts(t, list, places)
			for i, a := range places {
				if i%23 != 0 { // some with all behind them: there are a million pairs
					continue
				}
				for _, b := range places[i+1:] {
					cutAt(t, list, a, b)
				}
			}
			cutAt(t, list, places...) // byte by byte
		})
	}
}

// everyByte returns the positions in the downstream direction where it can be cut;
// of each frame at most the first and the last n.
func everyByte(list []said, n int) (places []int) {
	at := 0
	for _, s := range list {
		if s.dir == Upstream {
			continue
		}
		for i := 1; i <= len(s.frame); i++ {
			if i <= n || i > len(s.frame)-n {
				places = append(places, at+i)
			}
		}
		at += len(s.frame)
	}
	return places
}

// checkCuts cuts once at each place, and sees to it that each boundary where a frame
// of ours may stand gets one when the stream rests there.
func checkCuts(t *testing.T, list []said, places []int) {
	t.Helper()
	boundary, at := map[int]bool{}, 0
	for _, s := range list {
		if s.dir == Downstream {
			at += len(s.frame)
			boundary[at] = s.may
		}
	}
	for _, place := range places {
		if got := cutAt(t, list, place); boundary[place] != slices.Contains(got, place) {
			t.Fatalf("cut at byte %d, one of ours may stand there: %v; they stand at %v", place, boundary[place], got)
		}
	}
}

// cutAt sends a conversation through a splicing relay, reading up to each place at
// once, and returns after how many of the server's bytes something was put in.
func cutAt(t *testing.T, list []said, places ...int) (own []int) {
	t.Helper()
	x := newTransparency(t, 1)
	at := 0 // of the server's bytes, given to the relay
	scan := func() {
		x.sequence++
		x.published = &publication{message: new(protocol.SlotMessage), parts: slotBody}
		x.toSplice = x.toSplice[x.splice(x.toSplice):]
	}
	for _, s := range list {
		if s.dir == Upstream {
			scan()
			if v := x.spliceUp.Scan(s.frame); v.Err != nil || v.Used != len(s.frame) {
				t.Fatalf("%v: %+v", s, v)
			}
			continue
		}
		for from := 0; from < len(s.frame); {
			to := len(s.frame)
			for _, place := range places {
				if place > at+from && place < at+to {
					to = place - at
				}
			}
			x.toSplice = append(x.toSplice, s.frame[from:to]...)
			x.sent = append(x.sent, s.frame[from:to]...)
			from = to
			if slices.Contains(places, at+to) {
				scan()
			}
		}
		at += len(s.frame)
	}
	scan()
	return placesOfOurs(t, list, x)
}

// placesOfOurs takes a relay's output apart.
func placesOfOurs(t *testing.T, list []said, x *transparency) (own []int) {
	t.Helper()
	out, at, next := x.toStrip, 0, 0
	may := false
	for len(out) > 0 {
		var h protocol.FrameHeader
		if err := h.Decode(out); err != nil || h.Size() > len(out) {
			t.Fatalf("%d bytes are no whole frame: %v", len(out), err)
		}
		frame := out[:h.Size()]
		out = out[h.Size():]
		if bytes.HasSuffix(frame, slotBody[0]) {
			if !may {
				t.Fatalf("a slot message after byte %d, behind %v", at, list[next-1])
			}
			own = append(own, at)
			continue
		}
		for list[next].dir == Upstream {
			next++
		}
		if !bytes.Equal(frame, list[next].frame) {
			t.Fatalf("byte %d: got %q, want %v", at, frame[:min(len(frame), 60)], list[next])
		}
		may = list[next].may
		at += len(frame)
		next++
	}
	if at != len(x.sent) {
		t.Fatalf("%d of %d bytes came through", at, len(x.sent))
	}
	return own
}

// slotBody is a slot message that no test's own traffic looks like.
var slotBody = func() [][]byte {
	parts, err := (&protocol.SlotMessage{Epoch: 4711, Sequence: 4711, SystemIdentifier: 4711}).Parts(0)
	if err != nil {
		panic(err)
	}
	return parts
}()
