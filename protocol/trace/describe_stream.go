package trace

import (
	"github.com/slotferry/slotferry/protocol"
)

// describeCopy shows what is inside a CopyData, by its type.
func (m *Message) describeCopy(e *encoder) {
	var err error
	switch m.frame {
	case protocol.MsgPrimaryKeepalive:
		var k protocol.PrimaryKeepalive
		if err = k.Decode(m.body); err == nil {
			e.lsn("wal_end", k.WALEnd)
			m.sent(e, k.SendTime)
			e.flag("reply_requested", k.ReplyRequested)
		}
	case protocol.MsgStandbyStatusUpdate:
		var r protocol.StandbyStatusUpdate
		if err = r.Decode(m.body); err == nil {
			e.lsn("write", r.Write)
			e.lsn("flush", r.Flush)
			e.lsn("apply", r.Apply)
			m.sent(e, r.SendTime)
			e.flag("reply_requested", r.ReplyRequested)
		}
	case protocol.MsgHotStandbyFeedback:
		var h protocol.HotStandbyFeedback
		if err = h.Decode(m.body); err == nil {
			m.sent(e, h.SendTime)
			e.num("xmin", uint64(h.Xmin))
			e.num("xmin_epoch", uint64(h.XminEpoch))
			e.num("catalog_xmin", uint64(h.CatalogXmin))
			e.num("catalog_xmin_epoch", uint64(h.CatalogXminEpoch))
		}
	case protocol.MsgHelperReport:
		var h protocol.HelperReport
		if err = h.Decode(m.body); err == nil {
			describeReport(e, &h)
		}
	default:
		m.undecoded(e, nil) // an XLogData that is none
	}
	if err != nil {
		m.undecoded(e, err)
	}
}

// sent shows a time of the sender's clock, and how long ago that was when the
// message was captured.
func (m *Message) sent(e *encoder, t int64) {
	e.micros("sent", t)
	e.int("delay_us", m.Time-t)
}

// describeXLogData shows WAL and the records in it.
func (m *Message) describeXLogData(e *encoder) {
	x := &m.s.xlog
	e.lsn("start", x.DataStart)
	e.lsn("end", m.End)
	e.lsn("wal_end", x.WALEnd)
	if x.WALEnd >= m.End {
		e.num("lag", uint64(x.WALEnd-m.End))
	}
	m.sent(e, x.SendTime)
	if x.DataStart == protocol.InvalidLSN {
		e.hex("data", x.Data, maxHex)
		return
	}
	if m.s.cfg.NoRecords {
		e.num("record_count", uint64(len(m.s.records)))
		return
	}
	e.list("records")
	major := m.s.walker.Major()
	for i := range m.s.records {
		r := &m.s.records[i]
		e.object("")
		e.lsn("lsn", r.LSN)
		e.str("rmgr", r.Manager())
		e.str("kind", r.Kind(major))
		e.num("info", uint64(r.Info))
		e.num("xid", uint64(r.Xid))
		e.num("length", uint64(r.TotalLen))
		if r.Continued {
			e.flag("continued", true)
		}
		if r.Left > 0 {
			e.num("left", uint64(r.Left))
		}
		if r.Abandoned {
			e.flag("abandoned", true)
		}
		if r.BadCRC {
			e.flag("bad_crc", true)
		}
		e.end('}')
	}
	e.end(']')
}

// describeBackup shows archives and manifests by their size.
func (m *Message) describeBackup(e *encoder) {
	var err error
	switch m.frame {
	case protocol.MsgBackupArchive:
		var a protocol.BackupArchive
		if err = a.Decode(m.body); err == nil {
			e.str("archive", a.Name)
			e.str("tablespace", a.Tablespace)
		}
	case protocol.MsgBackupProgress:
		var p protocol.BackupProgress
		if err = p.Decode(m.body); err == nil {
			e.num("done", p.Done)
		}
	case protocol.MsgBackupData:
		e.int("size", m.Length-protocol.FrameHeaderLen-1)
	}
	if err != nil {
		m.undecoded(e, err)
	}
}
