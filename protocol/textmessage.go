package protocol

// ParameterStatus reports a setting that the downstream may want to know.
//
//	Byte1('S') | Int32 length | String Name | String Value
type ParameterStatus struct{ Name, Value string }

// Decode reads a frame's body.
func (m *ParameterStatus) Decode(src []byte) error {
	c := cursor{b: src}
	m.Name, m.Value = string(c.cstring()), string(c.cstring())
	return c.done("ParameterStatus")
}

// DecodeString reads the body of a frame that is one String: Query,
// CommandComplete, CopyFail, PasswordMessage. message is its name, for the error.
// The answer aliases src.
func DecodeString(message string, src []byte) ([]byte, error) {
	c := cursor{b: src}
	s := c.cstring()
	return s, c.done(message)
}

// DecodeReadyForQuery reads a frame's body: 'I' idle, 'T' in a transaction, 'E'
// in a failed one.
//
//	Byte1('Z') | Int32 5 | Byte1 status
func DecodeReadyForQuery(src []byte) (status byte, err error) {
	c := cursor{b: src}
	status = c.u8()
	if status != 'I' && status != 'T' && status != 'E' {
		c.fail(ErrInvalid)
	}
	return status, c.done("ReadyForQuery")
}

// ErrorField is one field of an ErrorResponse or NoticeResponse, in the order of
// the wire.
type ErrorField struct {
	Type  byte
	Value string
}

// errorFieldNames are those of protocol.h, PG_DIAG_*.
var errorFieldNames = map[byte]string{
	'S': "severity", 'V': "severity_nonlocalized", 'C': "code", 'M': "message", 'D': "detail", 'H': "hint",
	'P': "position", 'p': "internal_position", 'q': "internal_query", 'W': "where", 's': "schema", 't': "table",
	'c': "column", 'd': "datatype", 'n': "constraint", 'F': "file", 'L': "line", 'R': "routine",
}

// Name says what the field is; the type byte itself where that is not known.
func (f ErrorField) Name() string {
	if name, ok := errorFieldNames[f.Type]; ok {
		return name
	}
	return string(rune(f.Type))
}

// DecodeErrorFields reads all fields of an ErrorResponse's or NoticeResponse's
// body.
func DecodeErrorFields(src []byte) ([]ErrorField, error) {
	c := cursor{b: src}
	var fields []ErrorField
	for {
		kind := c.u8()
		if c.err != nil || kind == 0 {
			break
		}
		fields = append(fields, ErrorField{kind, string(c.cstring())})
	}
	return fields, c.done("ErrorResponse")
}
