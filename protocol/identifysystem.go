package protocol

import "strconv"

// IdentifySystemRow is the part a relay reads of the DataRow that answers
// IDENTIFY_SYSTEM: the first of its columns.
//
//	Int16 columns | Int32 length | Byte[length] systemid | ...
type IdentifySystemRow struct {
	SystemIdentifier uint64
}

// Decode reads a DataRow's body. The columns behind the first are not judged.
func (m *IdentifySystemRow) Decode(src []byte) error {
	c := cursor{b: src}
	columns, length := c.u16(), c.u32()
	text := string(c.rest())
	if err := c.done("IDENTIFY_SYSTEM row"); err != nil {
		return err
	}
	if columns == 0 || uint64(length) > uint64(len(text)) {
		return &MessageError{Message: "IDENTIFY_SYSTEM row", Err: ErrInvalid}
	}
	id, err := strconv.ParseUint(text[:length], 10, 64)
	if err != nil {
		return &MessageError{Message: "IDENTIFY_SYSTEM row", Offset: 6, Err: ErrInvalid}
	}
	m.SystemIdentifier = id
	return nil
}
