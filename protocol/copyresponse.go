package protocol

// CopyResponse opens a copy: CopyInResponse, CopyOutResponse or
// CopyBothResponse.
//
//	Byte1('G', 'H' or 'W') | Int32 length | Int8 Format | Int16 n | n x Int16 format of the column
type CopyResponse struct {
	Format  byte // 0 text, 1 binary
	Columns []uint16
}

// Decode reads a frame's body.
func (m *CopyResponse) Decode(src []byte) error {
	c := cursor{b: src}
	*m = CopyResponse{Format: c.u8()}
	for range c.u16() {
		format := c.u16()
		if c.err != nil {
			break
		}
		m.Columns = append(m.Columns, format)
	}
	return c.done("CopyResponse")
}
