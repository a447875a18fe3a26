package relay

import "github.com/slotferry/slotferry/protocol"

// Conversation is what both directions of a session know together about where
// the protocol stands. It is pure: frames go in, in the order in which each
// direction forwards them, and it has no lock of its own.
type Conversation struct {
	// Marker is set when slot messages were asked for on this connection: in
	// ModeSplice by the downstream, in ModeStrip by the relay itself.
	Marker bool

	// Sidecar is set when SLOT_STATE is to be answered here.
	Sidecar bool

	ready       bool             // the first ReadyForQuery came: the login is over
	outstanding int              // commands that still owe a ReadyForQuery
	command     protocol.Command // the last one
	creates     bool             // one of those outstanding makes a logical slot with a snapshot, or may
	creation    bool             // the rows that come now are the answer to that one
	stream      streamKind
	downDone    bool   // the downstream ended its side of the copy, or the session
	upDone      bool   // the upstream ended its side of the copy, or it failed
	copyEnded   bool   // the downstream ended its side of this copy: it confirms nothing more
	streamSlot  string // of START_REPLICATION LOGICAL, where that is certain
	sidecar     sidecarState

	sidecarAnswered bool // CopyBothResponse was sent

	binding binding // during the login
}

// streamKind is what flows between CopyBothResponse and ReadyForQuery.
type streamKind uint8

const (
	streamNone     streamKind = iota
	streamOther               // logical, or not known with certainty
	streamPhysical            // WAL: one outstanding START_REPLICATION PHYSICAL was answered
)

// sidecarState is where the answer to SLOT_STATE stands.
type sidecarState uint8

const (
	sidecarNone   sidecarState = iota
	sidecarAsked               // the command was taken, CopyBothResponse is owed
	sidecarOpen                // slot messages flow
	sidecarEnding              // the downstream ended it, CopyDone to ReadyForQuery are owed
)

// MaySplice reports whether a frame of ours, a slot message downstream or a
// report upstream, may go at a boundary now: asked for, on a physical stream, before either side's CopyDone, and not
// after an error.
func (c *Conversation) MaySplice() bool {
	return c.Marker && c.stream == streamPhysical && !c.downDone && !c.upDone
}

// strips reports whether a 0/0 XLogData of this copy is ours to judge. ModeStrip
// asks for slot messages on physical connections only, where every copy-both is
// one of WAL; so this does not need the certainty that splicing needs. It goes
// on after the downstream's CopyDone: messages may be on their way still.
func (c *Conversation) strips() bool { return c.Marker && c.stream != streamNone && !c.upDone }

// logical reports whether what comes from the upstream is a logical stream's, or
// may be: on a connection to a database whatever is not certainly physical.
func (c *Conversation) logical() bool { return c.stream == streamOther && !c.upDone }

// createsForCertain reports whether what comes from the upstream answers a
// CREATE_REPLICATION_SLOT that makes a logical slot.
func (c *Conversation) createsForCertain() bool {
	return c.ready && c.outstanding == 1 && c.command.Kind == protocol.CommandCreateLogical
}

// idle reports whether the upstream waits for a command.
func (c *Conversation) idle() bool {
	return c.ready && c.outstanding == 0 && c.stream == streamNone && c.sidecar == sidecarNone
}

// fromDownstream notes a frame that is about to be forwarded upstream. query
// is the text of a Query.
func (c *Conversation) fromDownstream(kind byte, query string) {
	switch kind {
	case protocol.FrameQuery:
		c.command = protocol.ParseCommand(query)
		c.creates = c.creates || c.command.Kind == protocol.CommandCreateLogical && !c.command.NoSnapshot
		c.outstanding++
		c.downDone = true // a Query inside a copy is a fault: no splicing into that
	case protocol.FrameSync, protocol.FrameFunctionCall:
		if c.stream == streamNone {
			c.command = protocol.Command{}
			c.outstanding++
		}
	case protocol.FrameCopyDone, protocol.FrameCopyFail, protocol.FrameTerminate:
		c.downDone, c.copyEnded = true, true
	}
}

// fromUpstream notes a frame that is about to be forwarded downstream, and
// reports whether a stream began with it.
func (c *Conversation) fromUpstream(kind byte) (began bool) {
	switch kind {
	case protocol.FrameReadyForQuery:
		if c.ready && c.outstanding > 0 {
			c.outstanding--
		}
		c.ready = true
		c.stream, c.upDone = streamNone, false
		c.creation, c.creates = false, c.creates && c.outstanding > 0
	case protocol.FrameCopyBoth:
		certain := c.ready && c.outstanding == 1
		c.stream, c.upDone, c.downDone, c.copyEnded, c.streamSlot = streamOther, false, !certain, false, ""
		switch {
		case certain && c.command.Kind == protocol.CommandStartPhysical:
			c.stream = streamPhysical
			return true
		case certain && c.command.Kind == protocol.CommandStartLogical:
			c.streamSlot = c.command.Slot
		}
	case protocol.FrameCopyDone, protocol.FrameErrorResponse, protocol.FrameCommandComplete:
		c.upDone, c.creation = true, false
	}
	return false
}

// Where a session stands before its login is over.
const (
	stateStartup = "startup" // no session yet
	stateLogin   = "login"   // the upstream decides, or nobody can read it
)

// State says where the conversation stands, in one word.
func (c *Conversation) State() string {
	switch {
	case c.sidecar != sidecarNone:
		return "slot_state"
	case !c.ready:
		return stateLogin
	case c.stream == streamPhysical && !c.upDone && !c.downDone:
		return "streaming"
	case c.stream == streamOther:
		return "copy"
	case c.outstanding > 0:
		return "busy"
	default:
		return "idle"
	}
}

// endSidecar notes the downstream's end of SLOT_STATE.
func (c *Conversation) endSidecar() { c.sidecar = sidecarEnding }

// sidecarMoved reports whether an answer to SLOT_STATE is owed.
func (c *Conversation) sidecarMoved() bool {
	return c.sidecar == sidecarAsked || c.sidecar == sidecarEnding
}

// sidecarOwes returns what the relay has to say itself at a boundary because
// of SLOT_STATE, and notes it as said. open reports whether slot messages may
// follow.
func (c *Conversation) sidecarOwes(dst []byte) (owed []byte, open bool) {
	switch c.sidecar {
	case sidecarAsked:
		c.sidecar, c.sidecarAnswered = sidecarOpen, true
		return protocol.AppendCopyBothResponse(dst), true
	case sidecarOpen:
		return dst, true
	case sidecarEnding:
		if !c.sidecarAnswered {
			dst = protocol.AppendCopyBothResponse(dst)
		}
		dst = protocol.AppendCopyDone(dst)
		dst = protocol.AppendCommandComplete(dst, "SLOT_STATE")
		c.sidecar, c.sidecarAnswered = sidecarNone, false
		return protocol.AppendReadyForQuery(dst), false
	default:
		return dst, false
	}
}
