package protocol

import (
	"errors"
	"reflect"
	"runtime"
	"testing"

	"github.com/jackc/pgio"
	"pgregory.net/rapid"
)

// appendOptional appends an optional field that this version does not know.
func appendOptional(dst []byte, tag uint16, value string) []byte {
	dst = pgio.AppendUint16(dst, tag)
	dst = pgio.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

// fromTheFuture is the payload of m as a later relay of the same version might
// send it, with optional fields at the end of every record and of the message.
func fromTheFuture(m *SlotMessage) []byte {
	head := *m
	head.Slots, head.PhysicalSlots, head.OpenTransactions, head.PreparedTransactions = nil, nil, nil, nil
	dst := head.appendPayload(nil)
	dst = dst[:len(dst)-4*4] // the four empty lists
	dst = appendRecords(dst, m.Slots, func(s *SlotState, b []byte) []byte {
		return appendOptional(appendOptional(s.append(b), 1, "new"), 0xFFFF, "")
	})
	dst = appendRecords(dst, m.PhysicalSlots, func(p *PhysicalSlot, b []byte) []byte {
		return appendOptional(p.append(b), 2, "newer")
	})
	dst = appendRecords(dst, m.OpenTransactions, func(o *OpenTransaction, b []byte) []byte {
		return appendOptional(o.append(b), 0, "\x00")
	})
	dst = appendRecords(dst, m.PreparedTransactions, func(p *PreparedTransaction, b []byte) []byte {
		return appendOptional(p.append(b), 9, SlotMagic)
	})
	return appendOptional(appendOptional(dst, 1, "newest"), 1, "")
}

// An old helper reads a new relay.
func TestUnknownOptionalFieldsAreSkipped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawMessage(t)
		want.Epoch, want.Sequence = 0, 0
		var a Assembler
		got, err := a.Add(inOnePart(fromTheFuture(want)))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

// Nothing that is cut, however the checksums say it is whole, reads as a
// message with fewer slots.
func TestPayloadRefusesEveryTruncation(t *testing.T) {
	m := manySlots(2)
	m.PhysicalSlots = []PhysicalSlot{{Name: "ph1"}}
	m.OpenTransactions = []OpenTransaction{{Database: "db1"}}
	m.PreparedTransactions = []PreparedTransaction{{GID: "g"}}
	payload := m.appendPayload(nil)
	for n := 1; n < len(payload); n++ {
		var a Assembler
		if got, err := a.Add(inOnePart(payload[:n])); got != nil || !errors.Is(err, ErrTruncated) {
			t.Errorf("%d of %d bytes: %+v, %v, want %v", n, len(payload), got, err, ErrTruncated)
		}
	}
	for n := 1; n < 6; n++ {
		var a Assembler
		got, err := a.Add(inOnePart(append(payload, make([]byte, n)...)))
		if got != nil || !errors.Is(err, ErrTruncated) {
			t.Errorf("%d bytes too many: %+v, %v, want %v", n, got, err, ErrTruncated)
		}
	}
}

func TestPayloadRefusesUnknownValues(t *testing.T) {
	m := &SlotMessage{Slots: []SlotState{{}}, PhysicalSlots: []PhysicalSlot{{}}}
	payload := m.appendPayload(nil)
	const (
		inRecovery = 8 + 4 + 8 + 4
		slot       = inRecovery + 1 + 8 + 8 + 8 + 4 + 4 // behind the count and the record's length
		flags      = slot + 3*2 + 8 + 8 + 4
		readiness  = flags + 2 + 8 + 2*2 + 8
		physical   = readiness + 1 + 4 + 4
	)
	for _, tt := range []struct {
		name   string
		at     int // of the byte changed
		value  byte
		offset int
	}{
		{"in_recovery of 2", inRecovery, 2, inRecovery},
		{"slot flag 4", flags + 1, 1 << 4, flags},
		{"slot flag 15", flags, 1 << 7, flags},
		{"readiness of 3", readiness, 3, readiness},
		{"physical flag 2", physical + 2 + 1, 1 << 2, physical + 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bad := append([]byte(nil), payload...)
			bad[tt.at] = tt.value
			var a Assembler
			_, err := a.Add(inOnePart(bad))
			if got := offsetOf(t, err, ErrInvalid); got != tt.offset {
				t.Errorf("offset = %d, want %d", got, tt.offset)
			}
		})
	}
}

// Counts and lengths that claim more than there is cost no more memory than a
// small multiple of the input.
func TestClaimsDoNotAllocate(t *testing.T) {
	var head SlotMessage
	fixed := head.appendPayload(nil)
	fixed = fixed[:len(fixed)-4*4]
	const size = 1 << 20
	for _, count := range []uint32{size / minSlotRecord, size / minSlotRecord / 2, 1 << 31, 1<<32 - 1} {
		payload := append(pgio.AppendUint32(fixed, count), make([]byte, size)...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var m SlotMessage
		err := m.decodePayload(payload)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("count %d was accepted", count)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 4*size {
			t.Errorf("count %d allocated %d bytes for an input of %d", count, got, size)
		}
	}
}
