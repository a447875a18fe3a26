package relay

import (
	"bytes"
	"testing"

	"github.com/slotferry/slotferry/protocol"
)

// FuzzTransparent checks that a relay is one: taking the spliced messages out
// again gives back every byte of the walsender's stream, however the stream is
// cut, whatever the order of frames, and wherever the two sides stand (I-13).
// Nothing of ours is put outside a physical copy-both, behind either side's
// CopyDone, or behind an error.
func FuzzTransparent(f *testing.F) {
	const login, start, logical, other, w, wal, keepalive, done, complete, ready, fail, clientDone, big, empty, reply = 0, 1,
		2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
	f.Add([]byte{login, start, w, wal, 40, keepalive, big, 200, wal, 3, done, clientDone, complete, ready, start, w, wal, 9}, uint16(7))
	f.Add([]byte{login, logical, w, wal, 40, fail, ready, start, w, empty, wal, 1, fail, wal, 2, ready}, uint16(1))
	f.Add([]byte{login, start, other, w, wal, 40, reply, ready, start, w, big, 255, reply, wal, 7}, uint16(33))
	f.Fuzz(func(t *testing.T, script []byte, seed uint16) {
		if len(script) > 200 {
			return
		}
		newTransparency(t, seed).run(script)
	})
}

// transparency is a walsender, a splicing relay, a stripping one and a
// walreceiver, with what is on its way between them.
type transparency struct {
	t    *testing.T
	rand uint32

	spliceConv, stripConv                    Conversation
	spliceDown, spliceUp, stripDown, stripUp *Flow
	splicer                                  Splicer
	published                                *publication
	sequence                                 uint64

	sent     []byte // by the walsender
	toSplice []byte // on its way to the splicing relay
	toStrip  []byte // on its way between the relays
	received []byte // by the walreceiver

	fromDownstream []byte // sent by the walreceiver
	atUpstream     []byte // received by the walsender

	spliced, taken int
}

func newTransparency(t *testing.T, seed uint16) *transparency {
	x := &transparency{t: t, rand: uint32(seed)*2654435761 + 1}
	x.spliceConv.Marker, x.stripConv.Marker = true, true
	x.spliceDown, x.spliceUp = newFlow(Downstream, false, 0, &x.spliceConv), newFlow(Upstream, false, 0, &x.spliceConv)
	x.stripDown, x.stripUp = newFlow(Downstream, true, 0, &x.stripConv), newFlow(Upstream, true, 0, &x.stripConv)
	return x
}

func (x *transparency) random(n int) int {
	x.rand = x.rand*1664525 + 1013904223
	return int(x.rand>>8) % n
}

func (x *transparency) run(script []byte) {
	next := func() int {
		if len(script) == 0 {
			return 0
		}
		b := script[0]
		script = script[1:]
		return int(b)
	}
	lsn := protocol.LSN(0x1000000)
	x.send([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 0})
	for len(script) > 0 {
		switch next() % 15 {
		case 0: // login, or the end of a command that is not there
			x.send(protocol.AppendReadyForQuery(nil))
		case 1:
			x.query("START_REPLICATION SLOT \"s\" 0/1000000 TIMELINE 1")
		case 2:
			x.query("START_REPLICATION SLOT s LOGICAL 0/1000000 (proto_version '1')")
		case 3:
			x.query("IDENTIFY_SYSTEM")
		case 4:
			x.send(protocol.AppendCopyBothResponse(nil))
		case 5:
			data := bytes.Repeat([]byte{0xAA}, next())
			m := protocol.XLogData{DataStart: lsn, WALEnd: lsn, Data: data}
			lsn += protocol.LSN(len(data))
			x.send(protocol.AppendCopyData(nil, m.Append(nil)))
		case 6:
			m := protocol.PrimaryKeepalive{WALEnd: lsn, ReplyRequested: true}
			x.send(protocol.AppendCopyData(nil, m.Append(nil)))
		case 7:
			x.send(protocol.AppendCopyDone(nil))
		case 8:
			x.send(protocol.AppendCommandComplete(nil, "COPY 0"))
		case 9:
			x.send(protocol.AppendReadyForQuery(nil))
		case 10:
			e := protocol.ErrorResponse{Severity: "ERROR", Code: "XX000", Message: "broken"}
			x.send(e.Append(nil))
		case 11:
			x.reply(protocol.AppendCopyDone(nil))
		case 12:
			data := bytes.Repeat([]byte("SLTFERRY"), next()*8+1)
			m := protocol.XLogData{DataStart: lsn, WALEnd: lsn, Data: data}
			lsn += protocol.LSN(len(data))
			x.send(protocol.AppendCopyData(nil, m.Append(nil)))
		case 13:
			m := protocol.XLogData{WALEnd: lsn}
			x.send(protocol.AppendCopyData(nil, m.Append(nil)))
		case 14:
			m := protocol.StandbyStatusUpdate{Write: lsn}
			x.reply(protocol.AppendCopyData(nil, m.Append(nil)))
		}
		x.publish()
		x.deliver(false)
	}
	x.deliver(true)
	if !bytes.Equal(x.received, x.sent) {
		x.t.Fatalf("the walreceiver got %d bytes, the walsender sent %d; %d spliced, %d taken",
			len(x.received), len(x.sent), x.spliced, x.taken)
	}
	if x.spliced != x.taken {
		x.t.Fatalf("%d frames put in, %d taken out", x.spliced, x.taken)
	}
	if !bytes.Equal(x.atUpstream, x.fromDownstream) {
		x.t.Fatalf("the walsender got %d bytes, the walreceiver sent %d", len(x.atUpstream), len(x.fromDownstream))
	}
}

// publish lets the slot source have news, in one part or several.
func (x *transparency) publish() {
	if x.random(3) == 0 {
		return
	}
	x.sequence++
	m := &protocol.SlotMessage{Epoch: 1, Sequence: x.sequence, CaptureLSN: 1}
	for range x.random(4) {
		m.Slots = append(m.Slots, protocol.SlotState{Name: "a_slot_with_a_name", Plugin: "pgoutput", Database: "db"})
	}
	parts, err := m.Parts(200)
	if err != nil {
		x.t.Fatal(err)
	}
	x.published = &publication{message: m, parts: parts}
}

func (x *transparency) send(frame []byte) {
	x.sent = append(x.sent, frame...)
	x.toSplice = append(x.toSplice, frame...)
}

func (x *transparency) query(text string) {
	x.reply(append([]byte{'Q', 0, 0, 0, byte(len(text) + 5)}, text+"\x00"...))
}

// reply sends what the walreceiver says, through both relays at once.
func (x *transparency) reply(frame []byte) {
	x.fromDownstream = append(x.fromDownstream, frame...)
	for _, flow := range []*Flow{x.stripUp, x.spliceUp} {
		v := flow.Scan(frame)
		if v.Err != nil || v.Used != len(frame) || len(v.Taken) != 0 {
			x.t.Fatalf("%+v", v)
		}
		var out []byte
		_ = v.each(frame, nil, func(b []byte) error { out = append(out, b...); return nil })
		frame = out
	}
	x.atUpstream = append(x.atUpstream, frame...)
}

// deliver moves some of what is on its way, or all.
func (x *transparency) deliver(all bool) {
	for range 8 {
		n, m := x.random(len(x.toSplice)+1), x.random(len(x.toStrip)+1)
		if all {
			n = len(x.toSplice)
		}
		x.toSplice = x.toSplice[x.splice(x.toSplice[:n]):]
		if all {
			m = len(x.toStrip)
		}
		x.toStrip = x.toStrip[x.strip(x.toStrip[:m]):]
	}
}

// splice does what the downstream pump of ModeSplice does, and returns how
// much of b it used.
func (x *transparency) splice(b []byte) int {
	v := x.spliceDown.Scan(b)
	if v.Err != nil {
		x.t.Fatal(v.Err)
	}
	var own []byte
	if v.Began {
		x.splicer.Restart()
	}
	if v.Boundary >= 0 && x.spliceConv.MaySplice() {
		own = x.splicer.Next(x.published, v.WALEnd, 1)
		x.observe(own, v.WALEnd)
	}
	_ = v.each(b, own, func(b []byte) error { x.toStrip = append(x.toStrip, b...); return nil })
	for x.spliceDown.AtBoundary() && x.spliceConv.MaySplice() { // at rest
		own := x.splicer.Next(x.published, x.spliceDown.Position(), 1)
		if own == nil {
			break
		}
		x.observe(own, x.spliceDown.Position())
		x.toStrip = append(x.toStrip, own...)
	}
	return v.Used
}

func (x *transparency) observe(own []byte, walEnd protocol.LSN) {
	if own == nil {
		return
	}
	x.spliced++
	if walEnd == protocol.InvalidLSN {
		x.t.Fatal("a slot message whose WALEnd is 0/0")
	}
	if x.spliceConv.stream != streamPhysical || x.spliceConv.downDone || x.spliceConv.upDone {
		x.t.Fatalf("spliced in %+v", x.spliceConv)
	}
}

// strip does what the downstream pump of ModeStrip does, and returns how much
// of b it used.
func (x *transparency) strip(b []byte) int {
	v := x.stripDown.Scan(b)
	if v.Err != nil {
		x.t.Fatal(v.Err)
	}
	x.taken += len(v.Taken)
	_ = v.each(b, nil, func(b []byte) error { x.received = append(x.received, b...); return nil })
	return v.Used
}
