package trace

import (
	"strings"

	"github.com/slotferry/slotferry/protocol"
)

// Phase is how far a connection has come.
type Phase uint8

// The phases.
const (
	PhaseStartup Phase = iota // the downstream's startup packets have no type byte
	PhaseLogin                // up to the first ReadyForQuery
	PhaseSession
	PhaseOpaque // encrypted: nothing can be read
)

// Copy is what CopyData carries between CopyBothResponse or CopyOutResponse and
// ReadyForQuery.
type Copy uint8

// The kinds of a copy.
const (
	CopyNone Copy = iota
	CopyPhysical
	CopyLogical
	CopySlotState // a relay's sidecar channel
	CopyBackup    // BASE_BACKUP
	CopyOther
	CopyUnknown // its begin was not seen
)

// maxOutstanding and maxCommand bound what a Conversation keeps of commands.
const (
	maxOutstanding = 64
	maxCommand     = 8 << 10
	maxColumns     = 1664 // MaxTupleAttributeNumber (htup_details.h)
)

// Conversation is what both directions of a connection know together about where
// the protocol stands. It is pure. Frames go in, in the order in which they went
// over the wire. The zero value is a connection that has just been opened.
type Conversation struct {
	Phase Phase
	Copy  Copy

	// Version is the protocol version of the StartupMessage; 0 before it.
	Version uint32

	// Answers is how many one-byte answers, to SSLRequest or GSSENCRequest, the
	// upstream owes.
	Answers int

	// Slot is the slot of the last START_REPLICATION; "" when it named none.
	Slot string

	commands []string // without an answer yet, oldest first
	request  uint32   // of the last Authentication: what the next response is
	columns  []string // of the last RowDescription
	secured  bool     // the upstream has agreed to encrypt
	answered bool     // it has sent encrypted bytes
	ended    [2]bool  // the direction's side of the copy has ended
}

// Command returns the command that is being answered.
func (c *Conversation) Command() string {
	if len(c.commands) == 0 {
		return ""
	}
	return c.commands[0]
}

// StartupPacket notes a packet without type byte from the downstream.
func (c *Conversation) StartupPacket(code uint32, body []byte) {
	switch code {
	case protocol.SSLRequestCode, protocol.GSSENCRequestCode:
		c.Answers++
	case protocol.CancelRequestCode:
	default:
		c.Version, c.Phase = code, PhaseLogin
	}
}

// Answered notes the one byte that answers SSLRequest or GSSENCRequest.
func (c *Conversation) Answered(answer byte) {
	c.Answers--
	c.secured = answer == 'S' || answer == 'G'
}

// opaque reports whether bytes of a connection that was taken for encrypted are.
// Where a relay ends TLS that begins with the first byte, it records the
// ClientHello before it knows, and then what is said inside.
func (c *Conversation) opaque(dir Direction, b []byte) bool {
	if dir == Downstream || c.answered {
		c.answered = true
		return true
	}
	ok, _ := OpensSession(b)
	if ok {
		c.Phase, c.secured = PhaseStartup, true
	}
	return !ok
}

// encrypted reports whether the downstream's bytes, at their begin or behind the
// upstream's agreement to encrypt, are encrypted. They are not where a relay ended
// the encryption and recorded what was said inside. At least 8 bytes of b, or a
// first one that tells, have to be there.
func (c *Conversation) encrypted(b []byte) bool {
	const tlsHandshake = 0x16 // RFC 8446, ContentType: sslnegotiation=direct has it first
	if b[0] == tlsHandshake {
		return true
	}
	return c.secured && len(b) >= 8 && b[4] != 0 && b[4] != protocol.CancelRequestCode>>24 // GSS: a length, and then no version
}

// Frame notes a frame. body may be the begin of a larger one.
func (c *Conversation) Frame(dir Direction, kind byte, body []byte) {
	switch kind {
	case protocol.FrameCopyDone:
		c.ended[dir] = true
	case protocol.FrameCopyBoth:
		c.ended = [2]bool{}
	}
	if dir == Upstream {
		c.fromDownstream(kind, body)
		return
	}
	c.fromUpstream(kind, body)
}

func (c *Conversation) fromDownstream(kind byte, body []byte) {
	switch kind {
	case protocol.FrameQuery, 'P', protocol.FrameFunctionCall:
		if len(c.commands) >= maxOutstanding {
			c.commands = c.commands[1:]
		}
		text := ""
		if kind == protocol.FrameQuery {
			query, _, _ := strings.Cut(string(body[:min(len(body), maxCommand)]), "\x00")
			text = query
		}
		if kind != 'P' {
			c.commands = append(c.commands, text)
		}
	case protocol.FrameSync:
		if c.Copy == CopyNone && len(c.commands) < maxOutstanding {
			c.commands = append(c.commands, "")
		}
	}
}

func (c *Conversation) fromUpstream(kind byte, body []byte) {
	switch kind {
	case protocol.FrameAuthentication:
		var m protocol.Authentication
		if m.Decode(body) == nil {
			c.request = m.Request
		}
	case protocol.FrameErrorResponse:
		c.ended[Downstream] = true
	case protocol.FrameReadyForQuery:
		if c.Phase == PhaseSession && len(c.commands) > 0 {
			c.commands = c.commands[1:]
		}
		c.Phase, c.Copy, c.columns = PhaseSession, CopyNone, nil
	case 'T':
		var m protocol.RowDescription
		c.columns = c.columns[:0]
		if m.Decode(body) == nil {
			for _, column := range m.Columns[:min(len(m.Columns), maxColumns)] {
				c.columns = append(c.columns, column.Name)
			}
		}
	case protocol.FrameCopyBoth:
		c.beginCopyBoth()
	case 'H':
		c.Copy = CopyOther
		if hasKeyword(c.Command(), "BASE_BACKUP") {
			c.Copy = CopyBackup
		}
	case 'G':
		c.Copy = CopyOther
	}
}

// outOfPlace reports whether a frame has no place where the conversation stands:
// between CopyBothResponse and CopyDone few have one.
func (c *Conversation) outOfPlace(dir Direction, kind byte) bool {
	if c.Copy != CopyPhysical && c.Copy != CopyLogical && c.Copy != CopySlotState || c.ended[dir] {
		return false
	}
	allowed := "dcENSA" // also what is sent out of order: notices, settings, notifications
	if dir == Upstream {
		allowed = "dcfXHS"
	}
	return strings.IndexByte(allowed, kind) < 0
}

// beginCopyBoth says what a stream is by the command that asked for it.
func (c *Conversation) beginCopyBoth() {
	command := protocol.ParseCommand(c.Command())
	switch command.Kind {
	case protocol.CommandStartPhysical:
		c.Copy, c.Slot = CopyPhysical, command.Slot
	case protocol.CommandStartLogical:
		c.Copy, c.Slot = CopyLogical, command.Slot
	case protocol.CommandSlotState:
		c.Copy, c.Slot = CopySlotState, ""
	default:
		c.Copy, c.Slot = CopyUnknown, ""
	}
}

func hasKeyword(command, keyword string) bool {
	command = strings.TrimLeft(command, " \t\r\n")
	return len(command) >= len(keyword) && strings.EqualFold(command[:len(keyword)], keyword)
}

// joinLate says that the begin of the connection was not seen.
func (c *Conversation) joinLate() {
	if c.Phase == PhaseStartup || c.Phase == PhaseLogin {
		c.Phase = PhaseSession
	}
	if c.Copy == CopyNone && c.Command() == "" {
		c.Copy = CopyUnknown
	}
}

// Resume puts the Conversation where a capture says that it stood.
func (c *Conversation) Resume(m *protocol.CaptureResume) {
	*c = Conversation{Phase: Phase(m.Phase), Copy: Copy(m.Copy)}
	if m.Command != "" {
		c.commands = []string{m.Command}
		c.Slot = protocol.ParseCommand(m.Command).Slot
	}
}

// Resumption is what Resume reads.
func (c *Conversation) Resumption() protocol.CaptureResume {
	return protocol.CaptureResume{Phase: byte(c.Phase), Copy: byte(c.Copy), Command: c.Command()}
}

// String names what a copy carries.
func (c Copy) String() string {
	switch c {
	case CopyNone:
		return "none"
	case CopyPhysical:
		return "physical"
	case CopyLogical:
		return "logical"
	case CopySlotState:
		return "slot_state"
	case CopyBackup:
		return "base_backup"
	case CopyOther:
		return "other"
	default:
		return "unknown"
	}
}
