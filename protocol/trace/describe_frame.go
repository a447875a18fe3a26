package trace

import (
	"bytes"
	"fmt"

	"github.com/slotferry/slotferry/protocol"
)

// masked stands for what is not shown.
const masked = "(masked)"

func (m *Message) describeStartup(e *encoder) {
	code, err := protocol.StartupCode(m.body)
	switch {
	case err != nil:
		m.undecoded(e, err)
	case code == protocol.CancelRequestCode:
		var c protocol.CancelRequest
		if err := c.Decode(m.body); err != nil {
			m.undecoded(e, err)
			return
		}
		e.num("pid", uint64(c.PID))
		m.key(e, c.Key)
	case code == protocol.SSLRequestCode || code == protocol.GSSENCRequestCode:
	default:
		var s protocol.StartupMessage
		if err := s.Decode(m.body); err != nil {
			m.undecoded(e, err)
			return
		}
		e.str("version", version(s.Version))
		e.object("parameters")
		for _, p := range s.Parameters {
			m.parameter(e, p.Name, p.Value)
		}
		e.end('}')
	}
}

func version(v uint32) string { return fmt.Sprintf("%d.%d", v>>16, v&0xFFFF) }

// parameter writes a name that the other side chose.
func (m *Message) parameter(e *encoder, name, value string) {
	if e.json {
		e.str("", name)
		e.b = append(e.b, ':')
		e.between = false
		e.str("", value)
		return
	}
	e.str("", name)
	e.b = append(e.b, '=')
	e.between = false
	e.str("", value)
}

// key writes a cancel key: who has it can cancel the session's command.
func (m *Message) key(e *encoder, key []byte) {
	e.num("key_length", uint64(len(key)))
	if m.s.cfg.ShowSecrets {
		e.hex("key", key, len(key))
	}
}

func (m *Message) describeFrame(e *encoder) {
	if m.Direction == Upstream {
		m.describeUpstream(e)
		return
	}
	m.describeDownstream(e)
}

func (m *Message) describeUpstream(e *encoder) {
	switch m.frame {
	case protocol.FrameQuery:
		m.describeString(e, "query", !m.s.cfg.ShowSecrets)
	case protocol.FrameCopyFail:
		m.describeString(e, "reason", false)
	case 'p':
		m.describeResponse(e)
	case 'P':
		statement, rest, _ := bytes.Cut(m.body, []byte{0})
		query, _, found := bytes.Cut(rest, []byte{0})
		if !found {
			m.undecoded(e, nil)
			return
		}
		e.str("statement", string(statement))
		e.str("query", string(m.shownQuery(query)))
	case protocol.FrameSync, protocol.FrameTerminate, protocol.FrameCopyDone, 'H':
	default:
		m.undecoded(e, nil)
	}
}

// shownQuery returns a query without the passwords in it.
func (m *Message) shownQuery(query []byte) []byte {
	if m.s.cfg.ShowSecrets {
		return query
	}
	query = bytes.Clone(query)
	maskQuery(query)
	return query
}

func (m *Message) describeString(e *encoder, name string, hide bool) {
	text, err := protocol.DecodeString(m.Name, m.body)
	if err != nil {
		m.undecoded(e, err)
		return
	}
	if hide {
		text = m.shownQuery(text)
	}
	e.str(name, string(text))
}

// describeResponse shows an answer to a request for authentication without what
// is secret in it.
func (m *Message) describeResponse(e *encoder) {
	show := m.s.cfg.ShowSecrets
	switch m.Name {
	case "SASLInitialResponse":
		var r protocol.SASLInitialResponse
		if err := r.Decode(m.body); err != nil {
			m.note(err)
			e.str("data", masked)
			return
		}
		e.str("mechanism", r.Mechanism)
		data := bytes.Clone(r.Data)
		if !show {
			maskSASL(r.Mechanism, data)
		}
		e.str("data", string(data))
	case "SASLResponse":
		data := bytes.Clone(m.body)
		if !show {
			maskSCRAM(data)
		}
		e.str("data", string(data))
	default:
		if !show {
			e.str("data", masked)
			return
		}
		e.str("data", string(bytes.TrimSuffix(m.body, []byte{0})))
	}
}

func (m *Message) describeDownstream(e *encoder) {
	switch m.frame {
	case protocol.FrameAuthentication:
		m.describeAuthentication(e)
	case protocol.FrameBackendKeyData:
		var k protocol.BackendKeyData
		if err := k.Decode(m.body); err != nil {
			m.undecoded(e, err)
			return
		}
		e.num("pid", uint64(k.PID))
		m.key(e, k.Key)
	case protocol.FrameCommandComplete:
		m.describeString(e, "tag", false)
	case protocol.FrameErrorResponse, protocol.FrameNotice:
		fields, err := protocol.DecodeErrorFields(m.body)
		if err != nil {
			m.undecoded(e, err)
			return
		}
		for _, f := range fields {
			e.str(f.Name(), f.Value)
		}
	case protocol.FrameNegotiate:
		m.describeNegotiation(e)
	case 'S':
		var p protocol.ParameterStatus
		if err := p.Decode(m.body); err != nil {
			m.undecoded(e, err)
			return
		}
		e.str("name", p.Name)
		e.str("value", p.Value)
	case protocol.FrameReadyForQuery:
		status, err := protocol.DecodeReadyForQuery(m.body)
		if err != nil {
			m.undecoded(e, err)
			return
		}
		e.str("status", string(rune(status)))
	case 'T', 'D':
		m.describeRow(e)
	case 'G', 'H', protocol.FrameCopyBoth:
		m.describeCopyResponse(e)
	case protocol.FrameCopyDone, 'I', '1', '2', '3', 'n', 's':
	default:
		m.undecoded(e, nil)
	}
}

func (m *Message) describeAuthentication(e *encoder) {
	var a protocol.Authentication
	err := a.Decode(m.body)
	switch {
	case err != nil:
		m.undecoded(e, err)
	case a.Request == protocol.AuthSASL:
		e.list("mechanisms")
		for _, name := range a.Mechanisms {
			e.str("", name)
		}
		e.end(']')
	case a.Request == protocol.AuthSASLContinue || a.Request == protocol.AuthSASLFinal:
		data := bytes.Clone(a.Data)
		if !m.s.cfg.ShowSecrets {
			maskSCRAM(data)
		}
		e.str("data", string(data))
	case m.Name == "Authentication":
		e.num("request", uint64(a.Request))
		e.num("data_length", uint64(len(a.Data)))
	case a.Request == protocol.AuthMD5:
		e.hex("salt", a.Data, 4)
	case len(a.Data) > 0:
		e.num("data_length", uint64(len(a.Data)))
	}
}

func (m *Message) describeNegotiation(e *encoder) {
	var n protocol.NegotiateProtocolVersion
	if err := n.Decode(m.body); err != nil {
		m.undecoded(e, err)
		return
	}
	e.str("version", version(n.Version))
	e.list("unknown_parameters")
	for _, p := range n.Parameters {
		e.str("", p)
	}
	e.end(']')
}

// describeRow shows the columns of a result, or a row of it by their names.
func (m *Message) describeRow(e *encoder) {
	if m.frame == 'T' {
		var d protocol.RowDescription
		if err := d.Decode(m.body); err != nil {
			m.undecoded(e, err)
			return
		}
		e.list("columns")
		for _, column := range d.Columns {
			e.str("", column.Name)
		}
		e.end(']')
		return
	}
	row := &m.s.row
	if err := row.Decode(m.body); err != nil {
		m.undecoded(e, err)
		return
	}
	e.object("values")
	names := m.s.conv.columns
	for i, value := range row.Values {
		name := fmt.Sprintf("column%d", i+1)
		if len(names) == len(row.Values) {
			name = names[i]
		}
		if value == nil {
			m.parameterNull(e, name)
			continue
		}
		m.parameter(e, name, string(value))
	}
	e.end('}')
}

func (m *Message) parameterNull(e *encoder, name string) {
	e.str("", name)
	if e.json {
		e.b = append(e.b, ":null"...)
	} else {
		e.b = append(e.b, "=NULL"...)
	}
}

func (m *Message) describeCopyResponse(e *encoder) {
	var c protocol.CopyResponse
	if err := c.Decode(m.body); err != nil {
		m.undecoded(e, err)
		return
	}
	e.num("format", uint64(c.Format))
	e.num("columns", uint64(len(c.Columns)))
	e.str("stream", m.s.conv.Copy.String())
	if m.s.conv.Slot != "" && m.frame == protocol.FrameCopyBoth {
		e.str("slot", m.s.conv.Slot)
	}
}
