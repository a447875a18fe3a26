package protocol

import "slices"

// createSlotColumns are the names of CREATE_REPLICATION_SLOT's result, on every
// version.
var createSlotColumns = []string{"slot_name", "consistent_point", "snapshot_name", "output_plugin"}

// NamesCreateReplicationSlot reports whether a result has the columns of the one of
// CREATE_REPLICATION_SLOT.
func (m *RowDescription) NamesCreateReplicationSlot() bool {
	return slices.EqualFunc(m.Columns, createSlotColumns, func(c RowColumn, name string) bool { return c.Name == name })
}

// CreateReplicationSlotRow is the part a relay reads of the DataRow that answers
// CREATE_REPLICATION_SLOT. Its columns are slot_name, consistent_point,
// snapshot_name and output_plugin.
type CreateReplicationSlotRow struct {
	SlotName        string
	ConsistentPoint LSN // 0/0 of a physical slot
}

// Decode reads a DataRow's body. Columns behind the second are not judged.
func (m *CreateReplicationSlotRow) Decode(src []byte) error {
	var row DataRow
	if err := row.Decode(src); err != nil {
		return err
	}
	if len(row.Values) < 2 {
		return &MessageError{Message: "CREATE_REPLICATION_SLOT row", Err: ErrInvalid}
	}
	point, err := ParseLSN(string(row.Values[1]))
	if err != nil {
		return &MessageError{Message: "CREATE_REPLICATION_SLOT row", Offset: 2 + 4 + len(row.Values[0]) + 4, Err: ErrInvalid}
	}
	m.SlotName, m.ConsistentPoint = string(row.Values[0]), point
	return nil
}
