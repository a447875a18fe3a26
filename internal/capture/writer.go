package capture

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/protocol/trace"
)

// flushInterval is how long a record may stay in memory.
const flushInterval = 200 * time.Millisecond

// Config says where to write to.
type Config struct {
	// Path is the file. One that is there already and is a capture is appended to;
	// a torn record at its end is cut off. Nobody but its owner can read it afterwards.
	Path string

	// MaxSize is the size from which on another file is begun, in bytes: Path is
	// renamed to Path.1, Path.1 to Path.2, and so on. 0: never.
	MaxSize int64

	// MaxFiles is how many files are kept, the current one included. 0: all.
	MaxFiles int

	// ShowSecrets writes passwords and keys as they are.
	ShowSecrets bool

	Now func() time.Time
}

// Writer writes captures. It is a relay's recorder. Its methods are safe for
// concurrent use. When a write fails, nothing more is written, and Run returns
// the error; nobody who records is held up by it.
type Writer struct {
	cfg    Config
	failed chan struct{} // closed with the first error

	mu    sync.Mutex
	file  *os.File
	out   *bufio.Writer
	size  int64
	base  uint32
	conns map[uint64]*trace.Masker
	rec   []byte
	err   error
}

// Open opens the file.
func Open(cfg Config) (*Writer, error) {
	w := &Writer{cfg: cfg, failed: make(chan struct{}), conns: map[uint64]*trace.Masker{}}
	if w.cfg.Now == nil {
		w.cfg.Now = time.Now
	}
	file, err := os.OpenFile(cfg.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := w.continueFile(file); err != nil {
		return nil, errors.Join(fmt.Errorf("append to capture %s: %w", cfg.Path, err), file.Close())
	}
	return w, nil
}

// continueFile goes to where the next record of a file belongs.
func (w *Writer) continueFile(file *os.File) error {
	w.file, w.out = file, bufio.NewWriterSize(file, 256<<10)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		if err := file.Chmod(0o600); err != nil {
			return fmt.Errorf("keep it from others: %w", err)
		}
	}
	if info.Size() == 0 {
		return w.writeHeader()
	}
	r, err := NewReader(file)
	if err != nil {
		return err
	}
	if secrets := r.Header.Flags&protocol.CaptureHasSecrets != 0; secrets != w.cfg.ShowSecrets {
		return errors.New("secrets are masked in one of the old and the new part, and not in the other")
	}
	var rec protocol.CaptureRecord
	var torn *TornError
	w.size = r.Offset()
	for err == nil {
		if err = r.Next(&rec); err == nil {
			w.size, w.base = r.Offset(), max(w.base, rec.Connection)
		}
	}
	if err != io.EOF && !errors.As(err, &torn) {
		return err
	}
	if err := file.Truncate(w.size); err != nil {
		return err
	}
	_, err = file.Seek(w.size, io.SeekStart)
	return err
}

func (w *Writer) writeHeader() error {
	h := protocol.CaptureHeader{Created: w.now()}
	if w.cfg.ShowSecrets {
		h.Flags |= protocol.CaptureHasSecrets
	}
	_, err := w.out.Write(h.Append(nil))
	w.size = protocol.CaptureHeaderLen
	return err
}

func (w *Writer) now() int64 { return protocol.Micros(w.cfg.Now()) }

// Opened records that a session began.
func (w *Writer) Opened(session uint64, downstream, upstream string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[session] = &trace.Masker{ShowSecrets: w.cfg.ShowSecrets}
	ends := protocol.CaptureEnds{Downstream: downstream, Upstream: upstream}
	w.write(protocol.CaptureOpened, session, ends.Append(nil))
}

// Record records bytes of one direction. They are not kept.
func (w *Writer) Record(session uint64, dir trace.Direction, b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.conns[session]; m != nil {
		w.writeBytes(session, dir, m.Add(dir, b))
	}
}

// Closed records that a session has ended.
func (w *Writer) Closed(session uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.conns[session]; m != nil {
		for _, dir := range []trace.Direction{trace.Upstream, trace.Downstream} {
			w.writeBytes(session, dir, m.Flush(dir))
		}
		delete(w.conns, session)
		w.write(protocol.CaptureClosed, session, nil)
	}
}

func (w *Writer) writeBytes(session uint64, dir trace.Direction, b []byte) {
	kind := protocol.CaptureDownstream
	if dir == trace.Upstream {
		kind = protocol.CaptureUpstream
	}
	for len(b) > 0 {
		n := min(len(b), protocol.MaxCapturePayload)
		w.write(kind, session, b[:n])
		b = b[n:]
	}
}

// write writes one record.
func (w *Writer) write(kind protocol.CaptureKind, session uint64, payload []byte) {
	if w.err != nil {
		return
	}
	rec := protocol.CaptureRecord{Kind: kind, Time: w.now(), Connection: w.base + uint32(session), Payload: payload}
	w.rec = rec.Append(w.rec[:0])
	_, err := w.out.Write(w.rec)
	w.size += int64(len(w.rec))
	if err == nil && w.cfg.MaxSize > 0 && w.size >= w.cfg.MaxSize {
		err = w.rotate()
	}
	w.fail(err)
}

func (w *Writer) fail(err error) {
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("write capture %s: %w", w.cfg.Path, err)
		close(w.failed)
	}
}

// rotate begins another file, in which every connection goes on where it stands.
func (w *Writer) rotate() error {
	if err := errors.Join(w.out.Flush(), w.file.Close()); err != nil {
		return err
	}
	if err := w.rename(); err != nil {
		return err
	}
	file, err := os.OpenFile(w.cfg.Path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w.file = file
	w.out.Reset(file)
	if err := w.writeHeader(); err != nil {
		return err
	}
	sessions := make([]uint64, 0, len(w.conns))
	for session := range w.conns {
		sessions = append(sessions, session)
	}
	slices.Sort(sessions)
	for _, session := range sessions {
		resume := w.conns[session].Resumption()
		rec := protocol.CaptureRecord{Kind: protocol.CaptureResumed, Time: w.now(), Connection: w.base + uint32(session),
			Payload: resume.Append(nil)}
		b := rec.Append(nil)
		if _, err := w.out.Write(b); err != nil {
			return err
		}
		w.size += int64(len(b))
	}
	return nil
}

// rename gives every file the next number, and removes those that are too many.
func (w *Writer) rename() error {
	name := func(n int) string {
		if n == 0 {
			return w.cfg.Path
		}
		return fmt.Sprintf("%s.%d", w.cfg.Path, n)
	}
	last := 0
	for {
		if _, err := os.Stat(name(last + 1)); err != nil {
			break
		}
		last++
	}
	for n := last; n >= 0; n-- {
		if w.cfg.MaxFiles > 0 && n+1 >= w.cfg.MaxFiles {
			if err := os.Remove(name(n)); err != nil {
				return err
			}
			continue
		}
		if err := os.Rename(name(n), name(n+1)); err != nil {
			return err
		}
	}
	return nil
}

// Run writes records to the file that have waited long enough, until ctx ends or
// a write fails.
func (w *Writer) Run(ctx context.Context) error {
	t := time.NewTicker(flushInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.failed:
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.err
		case <-t.C:
			w.mu.Lock()
			if w.err == nil {
				w.fail(w.out.Flush())
			}
			w.mu.Unlock()
		}
	}
}

// Close writes what is left and closes the file. Nothing may be recorded
// afterwards.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return errors.Join(w.err, w.file.Close())
	}
	return errors.Join(w.out.Flush(), w.file.Close())
}
