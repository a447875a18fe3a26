package trace

import (
	"github.com/slotferry/slotferry/protocol"
)

// maxRelations bounds how many tables of a logical stream are remembered.
const maxRelations = 10000

// classify says what a frame is, by where the conversation stands.
func (s *Session) classify(dir Direction, m *Message) {
	m.s = s
	s.records = s.records[:0]
	m.Name = protocol.DownstreamFrameName(m.frame)
	if dir == Upstream {
		m.Name = protocol.UpstreamFrameName(m.frame)
	}
	switch {
	case m.frame == protocol.FrameCopyData:
		s.classifyCopy(dir, m)
	case s.conv.outOfPlace(dir, m.frame):
		m.Fault, m.Note = true, "it has no place within a copy"
		if m.Name == "" {
			m.Name = "Unknown"
		}
	case m.Name == "":
		m.Name, m.Note = "Unknown", "the protocol has no message of type "+quoted(m.frame)
	case m.Missing == 0 && int64(len(m.body)) == m.Length-protocol.FrameHeaderLen && s.check(dir, m) != nil:
		m.Fault = true // describe says what it is
	}
	switch {
	case dir == Downstream && m.frame == protocol.FrameAuthentication:
		var a protocol.Authentication
		if a.Decode(m.body) == nil {
			m.Name = a.Name()
		}
	case dir == Upstream && m.frame == 'p':
		m.Name = s.conv.responseName()
	}
}

// check decodes a whole frame for the sake of the error.
func (s *Session) check(dir Direction, m *Message) error {
	var err error
	switch {
	case dir == Upstream && (m.frame == protocol.FrameQuery || m.frame == protocol.FrameCopyFail):
		_, err = protocol.DecodeString(m.Name, m.body)
	case dir == Upstream:
	case m.frame == protocol.FrameCommandComplete:
		_, err = protocol.DecodeString(m.Name, m.body)
	case m.frame == protocol.FrameErrorResponse || m.frame == protocol.FrameNotice:
		_, err = protocol.DecodeErrorFields(m.body)
	case m.frame == protocol.FrameReadyForQuery:
		_, err = protocol.DecodeReadyForQuery(m.body)
	case m.frame == protocol.FrameAuthentication:
		err = (&protocol.Authentication{}).Decode(m.body)
	case m.frame == protocol.FrameBackendKeyData:
		err = (&protocol.BackendKeyData{}).Decode(m.body)
	case m.frame == protocol.FrameNegotiate:
		err = (&protocol.NegotiateProtocolVersion{}).Decode(m.body)
	case m.frame == 'S':
		err = (&protocol.ParameterStatus{}).Decode(m.body)
	case m.frame == 'T':
		err = (&protocol.RowDescription{}).Decode(m.body)
	case m.frame == 'D':
		err = s.row.Decode(m.body)
	case m.frame == 'G' || m.frame == 'H' || m.frame == protocol.FrameCopyBoth:
		err = (&protocol.CopyResponse{}).Decode(m.body)
	}
	return err
}

// note moves the conversation, and what depends on it, behind a frame.
func (s *Session) note(dir Direction, frame byte, body []byte) {
	if frame == protocol.FrameCopyData {
		return
	}
	s.conv.Frame(dir, frame, body)
	if dir == Downstream && (frame == protocol.FrameCopyBoth || frame == protocol.FrameReadyForQuery) {
		s.walker.Lost()
		s.assembler.Reset()
		s.walEnd, s.relations, s.streaming = protocol.InvalidLSN, nil, false
	}
}

// responseName says what an AuthenticationResponse is, by what asked for it
// (protocol documentation, "PasswordMessage" and its neighbours).
func (c *Conversation) responseName() string {
	switch c.request {
	case protocol.AuthSASL:
		return "SASLInitialResponse"
	case protocol.AuthSASLContinue:
		return "SASLResponse"
	case protocol.AuthGSS, protocol.AuthGSSContinue, protocol.AuthSSPI:
		return "GSSResponse"
	case protocol.AuthCleartext, protocol.AuthMD5:
		return "PasswordMessage"
	default:
		return "AuthenticationResponse"
	}
}

// classifyCopy says what a CopyData is.
func (s *Session) classifyCopy(dir Direction, m *Message) {
	if len(m.body) == 0 || s.conv.Copy == CopyOther {
		return
	}
	kind, content := m.body[0], m.body[1:]
	switch {
	case s.conv.Copy == CopyBackup && dir == Downstream:
		s.classifyBackup(m, kind, content)
	case dir == Downstream && kind == protocol.MsgXLogData:
		s.classifyXLogData(m, content)
	case dir == Downstream && kind == protocol.MsgPrimaryKeepalive:
		var k protocol.PrimaryKeepalive
		m.Name, m.Fault = "PrimaryKeepalive", k.Decode(content) != nil
		m.End = k.WALEnd
	case dir == Upstream && kind == protocol.MsgStandbyStatusUpdate:
		var r protocol.StandbyStatusUpdate
		m.Name, m.Fault = "StandbyStatusUpdate", r.Decode(content) != nil
		m.End = r.Write
	case dir == Upstream && kind == protocol.MsgHotStandbyFeedback:
		var h protocol.HotStandbyFeedback
		m.Name, m.Fault = "HotStandbyFeedback", h.Decode(content) != nil
	case dir == Upstream && kind == protocol.MsgHelperReport && protocol.HasSlotMagic(content):
		m.Name = "HelperReport"
	case s.conv.Copy == CopyUnknown && dir == Downstream && kind == protocol.MsgBackupArchive:
		if (&protocol.BackupArchive{}).Decode(content) == nil {
			s.conv.Copy = CopyBackup
			s.classifyBackup(m, kind, content)
			return
		}
		m.Note = "not a message this program knows"
		return
	default:
		m.Note = "not a message this program knows"
		return
	}
	m.Fault = m.Fault && m.Missing == 0
	if m.kind == kindFrame {
		m.kind, m.body = kindCopy, content
	}
	m.frame = kind
}

func (s *Session) classifyBackup(m *Message, kind byte, content []byte) {
	name := map[byte]string{
		protocol.MsgBackupArchive: "BackupArchive", protocol.MsgBackupManifest: "BackupManifest",
		protocol.MsgBackupData: "BackupData", protocol.MsgBackupProgress: "BackupProgress",
	}[kind]
	if name == "" {
		m.Note = "not a message of BASE_BACKUP from PostgreSQL 15 on"
		return
	}
	m.Name, m.kind, m.frame, m.body = name, kindBackup, kind, content
}

// classifyXLogData says what an XLogData carries. Where the begin of the stream
// was not seen, its positions tell: XLogSendPhysical (walsender.c) sends up to
// WALEnd, WalSndPrepareWrite says the same position twice.
func (s *Session) classifyXLogData(m *Message, content []byte) {
	m.Name = "XLogData"
	x := &s.xlog
	if err := x.Decode(content); err != nil {
		m.Fault, m.Note = m.Missing == 0, err.Error()
		return
	}
	magic := protocol.HasSlotMagic(x.Data)
	if s.conv.Copy == CopyUnknown && len(x.Data) > 0 && !(x.DataStart == protocol.InvalidLSN && magic) {
		s.conv.Copy = CopyPhysical
		if x.DataStart == x.WALEnd || x.DataStart == protocol.InvalidLSN {
			s.conv.Copy = CopyLogical
		}
	}
	m.Start, m.End = x.DataStart, x.DataStart
	switch {
	case s.conv.Copy == CopyLogical:
		s.classifyLogical(m)
	case x.DataStart == protocol.InvalidLSN && magic:
		m.Name, m.kind = "SlotMessage", kindSlotMessage
		m.End = x.WALEnd
		s.part = protocol.Part{}
		s.slots, s.slotsErr = s.assembler.Add(x.Data)
		if s.slotsErr != nil {
			m.Fault = m.Missing == 0
		}
		_ = s.part.Decode(x.Data) // the same error
	default:
		m.kind = kindXLogData
		s.walkXLogData(m)
	}
	m.body = content
}

// walkXLogData finds the WAL records in a physical XLogData.
func (s *Session) walkXLogData(m *Message) {
	x := &s.xlog
	if x.DataStart == protocol.InvalidLSN {
		if len(x.Data) > 0 {
			m.Fault, m.Note = true, "XLogData at 0/0 that is not a slot message"
		}
		return
	}
	m.End = x.DataStart + protocol.LSN(len(x.Data))
	if s.walEnd != protocol.InvalidLSN && s.walEnd != x.DataStart {
		m.Fault, m.Note = true, "WAL does not follow what came before, which ended at "+s.walEnd.String()
	}
	damage := s.walker.Damage()
	s.records = s.walker.Walk(x.DataStart, x.Data, s.records)
	if s.walker.Damage() != damage {
		m.Fault = true
		if m.Note == "" {
			m.Note = "the WAL in it is damaged"
		}
	}
	if m.Missing > 0 {
		s.walker.Lost()
		m.Fault = false
		m.End += protocol.LSN(m.Missing)
	}
	s.walEnd = m.End
}

// classifyLogical reads a logical decoding message. Output that is not
// pgoutput's is shown as text.
func (s *Session) classifyLogical(m *Message) {
	m.kind = kindLogical
	x := &s.xlog
	l := &s.logical
	if len(x.Data) == 0 || l.Decode(x.Data, s.streaming) != nil {
		l.Type = 0
		return
	}
	m.Detail = l.MessageName()
	switch l.Type {
	case protocol.LogicalStreamStart:
		s.streaming = true
	case protocol.LogicalStreamStop:
		s.streaming = false
	case protocol.LogicalRelationMsg:
		if s.relations == nil || len(s.relations) >= maxRelations {
			s.relations = map[uint32]protocol.LogicalRelation{}
		}
		s.relations[l.Relation.OID] = l.Relation
	}
}

func quoted(c byte) string {
	if c > ' ' && c < 0x7F {
		return "'" + string(rune(c)) + "'"
	}
	return "0x" + string(hexDigits[c>>4]) + string(hexDigits[c&15])
}
