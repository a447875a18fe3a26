package protocol

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSlotMessageRoundTrip(t *testing.T) {
	for _, tt := range []struct {
		name  string
		slots int
		parts int
	}{
		{"no slot", 0, 1},
		{"one slot", 1, 1},
		{"1,000 slots", 1000, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := manySlots(tt.slots)
			bodies := mustParts(t, want, 0)
			if len(bodies) != tt.parts {
				t.Errorf("%d parts, want %d", len(bodies), tt.parts)
			}
			for i, body := range bodies {
				if len(body) > MaxPartBody || !HasSlotMagic(body) {
					t.Errorf("part %d has %d bytes, magic %v", i, len(body), HasSlotMagic(body))
				}
			}
			if got, err := assemble(bodies); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("message is not the same after a round trip: %v", err)
			}
		})
	}
}

// Any message, in parts of any size from the least up, comes back as it was.
func TestSlotMessageRoundTripInPartsOfAnySize(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := drawMessage(rt)
		maxBody := rapid.OneOf(rapid.IntRange(minPartBody, minPartBody+40), rapid.IntRange(minPartBody, MaxPartBody)).
			Draw(rt, "maxBody")
		bodies := mustParts(t, want, maxBody)
		for i, body := range bodies {
			if len(body) > maxBody {
				rt.Fatalf("part %d has %d bytes, want at most %d", i, len(body), maxBody)
			}
		}
		if got, err := assemble(bodies); err != nil || !reflect.DeepEqual(got, want) {
			rt.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

// A name that was too long was cut, and so became another slot's.
func TestPartsRefusesWhatCannotBeReadBack(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	for _, tt := range []struct {
		name    string
		m       *SlotMessage
		maxBody int
		want    error
	}{
		{"slot name", &SlotMessage{Slots: []SlotState{{Name: long}}}, 0, ErrTooLarge},
		{"plugin", &SlotMessage{Slots: []SlotState{{Plugin: long}}}, 0, ErrTooLarge},
		{"physical slot name", &SlotMessage{PhysicalSlots: []PhysicalSlot{{Name: long}}}, 0, ErrTooLarge},
		{"database", &SlotMessage{OpenTransactions: []OpenTransaction{{Database: long}}}, 0, ErrTooLarge},
		{"gid", &SlotMessage{PreparedTransactions: []PreparedTransaction{{GID: long}}}, 0, ErrTooLarge},
		{"readiness", &SlotMessage{Slots: []SlotState{{Readiness: 3}}}, 0, ErrInvalid},
		{"payload", manySlots(60_000), 0, ErrTooLarge},
		{"parts", manySlots(1000), minPartBody, ErrTooLarge},
		{"part size below the least", &SlotMessage{}, minPartBody - 1, ErrInvalid},
		{"part size above the cap", &SlotMessage{}, MaxPartBody + 1, ErrInvalid},
		{"part size below zero", &SlotMessage{}, -1, ErrInvalid},
	} {
		if bodies, err := tt.m.Parts(tt.maxBody); !errors.Is(err, tt.want) || bodies != nil {
			t.Errorf("%s: Parts = %d bodies, %v, want %v", tt.name, len(bodies), err, tt.want)
		}
	}
}
