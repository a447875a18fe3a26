package protocol

// noValue is the length that stands for NULL.
const noValue = 0xFFFFFFFF

// RowDescription says what the columns of the rows that follow are. For
// IDENTIFY_SYSTEM, TIMELINE_HISTORY, CREATE_REPLICATION_SLOT, READ_REPLICATION_SLOT
// and SHOW a walsender sends one (walsender.c, begin_tup_output_tupdesc).
//
//	Byte1('T') | Int32 length | Int16 n | n x (String Name | Int32 TableOID | Int16 Column | Int32 TypeOID |
//	Int16 TypeSize | Int32 TypeModifier | Int16 Format)
type RowDescription struct{ Columns []RowColumn }

// RowColumn is one column of a RowDescription.
type RowColumn struct {
	Name    string
	TypeOID uint32
	Format  uint16 // 0 text, 1 binary
}

// Decode reads a frame's body.
func (m *RowDescription) Decode(src []byte) error {
	c := cursor{b: src}
	m.Columns = nil
	for range c.u16() {
		column := RowColumn{Name: string(c.cstring())}
		c.u32()
		c.u16()
		column.TypeOID = c.u32()
		c.u16()
		c.u32()
		column.Format = c.u16()
		if c.err != nil {
			break
		}
		m.Columns = append(m.Columns, column)
	}
	return c.done("RowDescription")
}

// DataRow is one row of a result.
//
//	Byte1('D') | Int32 length | Int16 n | n x (Int32 length, or -1 for NULL | Byte[length] value)
type DataRow struct {
	Values [][]byte // nil is NULL
}

// Decode reads a frame's body. Values alias src.
func (m *DataRow) Decode(src []byte) error {
	c := cursor{b: src}
	m.Values = m.Values[:0]
	for range c.u16() {
		var value []byte
		if n := c.u32(); n != noValue {
			value = c.bytes(int(int32(n)))
		}
		if c.err != nil {
			break
		}
		m.Values = append(m.Values, value)
	}
	return c.done("DataRow")
}
