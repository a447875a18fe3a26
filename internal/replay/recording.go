package replay

import (
	"errors"
	"fmt"
	"io"

	"github.com/slotferry/slotferry/internal/capture"
	"github.com/slotferry/slotferry/protocol"
)

// piece is what one side said, where the file has it.
type piece struct {
	offset   int64 // of the record in the file
	time     int64
	upstream bool // said by the downstream: to be waited for
	length   int  // of the record's payload
	skip     int  // bytes of it that belong to the login
}

// Recording is one connection of a capture. Only where its bytes are is kept in
// memory, not the bytes; and the login, which is not played as it was: nobody can
// log in by SCRAM twice with the same answers.
type Recording struct {
	file   io.ReaderAt
	pieces []piece
	login  []byte // settings, cancel key, ReadyForQuery
}

// errEncrypted says that a connection cannot be replayed.
var errEncrypted = errors.New("the connection was encrypted: what was said cannot be told")

// errNoConnection says that a capture has no such connection.
var errNoConnection = errors.New("the capture has no such connection")

// Read finds a connection in a capture; 0 is the first that has anything to say.
func Read(file io.ReaderAt, size int64, connection uint32) (*Recording, error) {
	r, err := capture.NewReader(io.NewSectionReader(file, 0, size))
	if err != nil {
		return nil, err
	}
	recording := &Recording{file: file}
	login := newLoginReader()
	var rec protocol.CaptureRecord
	for {
		at := r.Offset()
		err := r.Next(&rec)
		var torn *capture.TornError
		if err == io.EOF || errors.As(err, &torn) {
			break
		}
		if err != nil {
			return nil, err
		}
		data := rec.Kind == protocol.CaptureDownstream || rec.Kind == protocol.CaptureUpstream
		if data && connection == 0 {
			connection = rec.Connection
		}
		if rec.Connection != connection {
			continue
		}
		switch {
		case rec.Kind == protocol.CaptureResumed:
			return nil, fmt.Errorf("connection %d begins in an earlier file of this capture: it cannot be replayed from here", connection)
		case data:
			p := piece{offset: at, time: rec.Time, upstream: rec.Kind == protocol.CaptureUpstream, length: len(rec.Payload)}
			p.skip = login.read(p.upstream, rec.Payload)
			recording.pieces = append(recording.pieces, p)
		}
		if login.encrypted {
			return nil, errEncrypted
		}
	}
	recording.login = login.frames
	if len(recording.pieces) == 0 {
		return nil, errNoConnection
	}
	return recording, nil
}

// read returns the bytes of a piece, in buf if they fit.
func (r *Recording) read(p piece, buf []byte) ([]byte, error) {
	n := p.length + protocol.CaptureRecordOverhead
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if _, err := r.file.ReadAt(buf, p.offset); err != nil {
		return nil, fmt.Errorf("read capture: %w", err)
	}
	var rec protocol.CaptureRecord
	if _, err := rec.Decode(buf); err != nil {
		return nil, err
	}
	return rec.Payload[p.skip:], nil
}
