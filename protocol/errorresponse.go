package protocol

// Severities of an ErrorResponse.
const (
	SeverityError = "ERROR"
	SeverityFatal = "FATAL"
)

// ErrorResponse is an error report. Only the fields that a relay writes or
// reads are here.
//
//	Byte1('E') | Int32 length | n x (Byte1 field | String value) | Byte1(0)
type ErrorResponse struct {
	Severity string // 'S' and 'V'
	Code     string // 'C', the SQLSTATE
	Message  string // 'M'
	Detail   string // 'D'
	Hint     string // 'H'
}

// Decode reads a frame's body. Fields not listed are passed over. Severity is
// the one that is never translated, where the server sends it (9.6 and newer).
func (m *ErrorResponse) Decode(src []byte) error {
	c := cursor{b: src}
	*m = ErrorResponse{}
	var plain string
	for {
		field := c.u8()
		if c.err != nil || field == 0 {
			break
		}
		value := string(c.cstring())
		switch field {
		case 'S':
			m.Severity = value
		case 'V':
			plain = value
		case 'C':
			m.Code = value
		case 'M':
			m.Message = value
		case 'D':
			m.Detail = value
		case 'H':
			m.Hint = value
		}
	}
	if plain != "" {
		m.Severity = plain
	}
	return c.done("ErrorResponse")
}

// Append appends the whole frame to dst. Empty fields but the first four are
// left out.
func (m *ErrorResponse) Append(dst []byte) []byte {
	return appendFrame(dst, FrameErrorResponse, func(dst []byte) []byte {
		for _, f := range []struct {
			field byte
			value string
			must  bool
		}{
			{'S', m.Severity, true}, {'V', m.Severity, true}, {'C', m.Code, true}, {'M', m.Message, true},
			{'D', m.Detail, false}, {'H', m.Hint, false},
		} {
			if !f.must && f.value == "" {
				continue
			}
			dst = append(dst, f.field)
			for i := range len(f.value) {
				if f.value[i] != 0 {
					dst = append(dst, f.value[i])
				}
			}
			dst = append(dst, 0)
		}
		return append(dst, 0)
	})
}
