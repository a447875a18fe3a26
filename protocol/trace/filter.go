package trace

import (
	"strings"

	"github.com/slotferry/slotferry/protocol"
)

// Filter says which messages are shown. The zero value shows all. A Break or a
// Gap is shown whatever the filter says, unless it is of another connection or
// direction.
type Filter struct {
	Types       []string // names of messages, or of what is in a logical one; in any case
	Connections []uint64
	Directions  []Direction
	From, To    protocol.LSN // what touches this range; To 0/0 has no end
	Slot        string       // streams that were started with it, commands that name it, slot messages that have it
}

// Match reports whether the filter lets a message through.
func (f *Filter) Match(m *Message) bool {
	if len(f.Connections) > 0 && !contains(f.Connections, m.Connection) ||
		len(f.Directions) > 0 && !contains(f.Directions, m.Direction) {
		return false
	}
	if m.kind == kindBreak || m.kind == kindGap {
		return true
	}
	if len(f.Types) > 0 && !f.matchType(m) {
		return false
	}
	if f.From != 0 || f.To != 0 {
		start := m.Start
		if start == 0 {
			start = m.End
		}
		if m.End == 0 && start == 0 || m.End < f.From || f.To != 0 && start > f.To {
			return false
		}
	}
	return f.Slot == "" || m.namesSlot(f.Slot)
}

func contains[T comparable](list []T, v T) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

func (f *Filter) matchType(m *Message) bool {
	for _, t := range f.Types {
		if strings.EqualFold(t, m.Name) || m.Detail != "" && strings.EqualFold(t, m.Detail) {
			return true
		}
	}
	return false
}

// namesSlot reports whether a message has to do with a slot.
func (m *Message) namesSlot(name string) bool {
	conv := &m.s.conv
	switch {
	case m.kind == kindSlotMessage:
		if m.s.slots == nil {
			return false
		}
		for i := range m.s.slots.Slots {
			if m.s.slots.Slots[i].Name == name {
				return true
			}
		}
		for i := range m.s.slots.PhysicalSlots {
			if m.s.slots.PhysicalSlots[i].Name == name {
				return true
			}
		}
		return false
	case m.kind == kindFrame && m.Direction == Upstream && m.frame == protocol.FrameQuery:
		return hasWord(string(m.body), name)
	case m.Name == "HelperReport":
		return strings.Contains(string(m.body), name)
	case conv.Copy == CopyPhysical || conv.Copy == CopyLogical:
		return conv.Slot == name
	default:
		return hasWord(conv.Command(), name)
	}
}

// hasWord reports whether a command has a name in it as a word.
func hasWord(command, name string) bool {
	for rest := command; ; {
		before, after, found := strings.Cut(rest, name)
		if !found {
			return false
		}
		if !endsInName(before) && !beginsInName(after) {
			return true
		}
		rest = after
	}
}

func endsInName(s string) bool   { return s != "" && isNameByte(s[len(s)-1]) }
func beginsInName(s string) bool { return s != "" && isNameByte(s[0]) }

func isNameByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
