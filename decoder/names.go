package decoder

import (
	"fmt"
	"strings"

	"github.com/slotferry/slotferry/protocol"
)

// maxName is the longest name of a slot, a database or a library (NAMEDATALEN - 1).
const maxName = 63

// possible checks a slot message for names that no server can have. Names go from
// it into commands to the standby and into the startup packet of a connection, so
// whoever could choose them freely, a relay that was taken over, could say more
// there than a name.
func possible(m *protocol.SlotMessage) error {
	for i := range m.Slots {
		s := &m.Slots[i]
		switch {
		case !isSlotName(s.Name):
			return fmt.Errorf("slot name %q", s.Name)
		case !isName(s.Database):
			return fmt.Errorf("database %q of slot %q", s.Database, s.Name)
		case !isName(s.Plugin):
			return fmt.Errorf("plugin %q of slot %q", s.Plugin, s.Name)
		}
	}
	return nil
}

// isSlotName is ReplicationSlotValidateName (slot.c).
func isSlotName(name string) bool {
	return name != "" && len(name) <= maxName && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// isName reports whether a name fits into a catalog. It may have any byte but 0, and
// need not be UTF-8: a database has the encoding of whoever created it. Slots of one
// that is not are told of, and not made (judgeMissing): neither the catalog as JSON
// nor the ledger would give its name back.
func isName(name string) bool {
	return name != "" && len(name) <= maxName && !strings.Contains(name, "\x00")
}

// IsAnchor reports whether a slot has the reserved name of a helper's anchor.
func IsAnchor(name string) bool { return reserved(name) }
