package relay

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/slotferry/slotferry/protocol"
)

// rowReader takes the text columns of one row front to back. It is sticky, as
// protocol's cursor is. NULL is the zero value.
type rowReader struct {
	row [][]byte
	err error
}

func (r *rowReader) next() (text string, ok bool) {
	if len(r.row) == 0 {
		r.fail(errors.New("row is too short"))
		return "", false
	}
	v := r.row[0]
	r.row = r.row[1:]
	return string(v), v != nil
}

func (r *rowReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *rowReader) text() string { s, _ := r.next(); return s }
func (r *rowReader) flag() bool   { return r.text() == "t" }

func (r *rowReader) lsn() protocol.LSN {
	s, ok := r.next()
	if !ok {
		return protocol.InvalidLSN
	}
	l, err := protocol.ParseLSN(s)
	if err != nil {
		r.fail(err)
	}
	return l
}

func (r *rowReader) number(base, bits int) uint64 {
	s, ok := r.next()
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(s, base, bits)
	if err != nil {
		r.fail(err)
	}
	return n
}

func (r *rowReader) xid() uint32 { return uint32(r.number(10, 32)) }

func (r *rowReader) signed(bits int) int64 {
	s, ok := r.next()
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, bits)
	if err != nil {
		r.fail(err)
	}
	return n
}

// captured turns the results of captureQueries into a message without epoch,
// sequence and interval.
func captured(results [][][][]byte, filter *slotFilter) (*protocol.SlotMessage, error) {
	if len(results) != captureResults || len(results[0]) != 1 {
		return nil, fmt.Errorf("read slots: %d results from the server", len(results))
	}
	m := new(protocol.SlotMessage)
	var errs []error
	each := func(rows [][][]byte, read func(*rowReader)) {
		for _, row := range rows {
			r := rowReader{row: row}
			read(&r)
			errs = append(errs, r.err)
		}
	}
	each(results[0], func(r *rowReader) {
		m.SystemIdentifier = uint64(r.signed(64))
		m.InRecovery = r.flag()
		m.CaptureLSN = r.lsn()
		m.CaptureTime = r.signed(64)
		tli, recoveryTLI := r.number(16, 32), r.number(10, 32)
		m.TimelineID = uint32(max(tli, recoveryTLI))
		m.PostmasterStartTime = r.signed(64)
		m.ServerVersionNum = uint32(r.number(10, 32))
	})
	each(results[1], func(r *rowReader) { readSlot(r, m, filter) })
	each(results[2], func(r *rowReader) {
		m.PreparedTransactions = append(m.PreparedTransactions, protocol.PreparedTransaction{
			Database: r.text(), GID: r.text(), Xid: r.xid(), Prepared: r.signed(64),
		})
	})
	each(results[3], func(r *rowReader) {
		m.OpenTransactions = append(m.OpenTransactions, protocol.OpenTransaction{
			Database: r.text(), Xid: r.xid(), PID: int32(r.signed(32)), XactStart: r.signed(64),
		})
	})
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("read slots: %w", err)
	}
	return m, nil
}

// readSlot reads one row of slotsQuery. Temporary logical slots are left out
// always: they die with their session.
func readSlot(r *rowReader, m *protocol.SlotMessage, filter *slotFilter) {
	s := protocol.SlotState{Name: r.text()}
	physical := r.text() == "physical"
	s.Plugin, s.Database = r.text(), r.text()
	temporary := r.flag()
	s.Active = r.flag()
	xmin := r.xid()
	s.CatalogXmin = r.xid()
	s.RestartLSN, s.ConfirmedFlushLSN = r.lsn(), r.lsn()
	s.WALStatus = r.text()
	s.TwoPhase, s.TwoPhaseAt = r.flag(), r.lsn()
	s.Failover, s.Synced = r.flag(), r.flag()
	conflicting := r.flag()
	s.InvalidationReason = r.text()
	s.InactiveSince = r.signed(64)
	switch {
	case s.InvalidationReason != "":
	case s.WALStatus == "lost":
		s.InvalidationReason = "wal_removed"
	case conflicting:
		s.InvalidationReason = "conflicting"
	}
	switch {
	case physical:
		m.PhysicalSlots = append(m.PhysicalSlots, protocol.PhysicalSlot{
			Name: s.Name, Active: s.Active, Temporary: temporary, RestartLSN: s.RestartLSN,
			Xmin: xmin, CatalogXmin: s.CatalogXmin,
		})
	case !temporary && filter.selects(&s):
		m.Slots = append(m.Slots, s)
	}
}
