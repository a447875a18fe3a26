package capture

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/protocol/trace"
)

func open(t *testing.T, cfg Config) *Writer {
	t.Helper()
	cfg.Now = func() time.Time { return protocol.Time(849232000000000) }
	w, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// records reads a file: the kinds of its records, and the bytes of each
// direction.
func records(t *testing.T, name string) (kinds []protocol.CaptureKind, up, down []byte, connections []uint32) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var rec protocol.CaptureRecord
	for {
		err := r.Next(&rec)
		if err == io.EOF {
			return kinds, up, down, connections
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds, connections = append(kinds, rec.Kind), append(connections, rec.Connection)
		switch rec.Kind {
		case protocol.CaptureUpstream:
			up = append(up, rec.Payload...)
		case protocol.CaptureDownstream:
			down = append(down, rec.Payload...)
		}
	}
}

var startup = (&protocol.StartupMessage{Version: protocol.ProtocolVersion3,
	Parameters: []protocol.StartupParameter{{Name: "user", Value: "u"}}}).Append(nil)

// TestPasswordNeverReachesTheFile feeds a login in pieces of every size.
func TestPasswordNeverReachesTheFile(t *testing.T) {
	ask := []byte{'R', 0, 0, 0, 8, 0, 0, 0, 3, 'K', 0, 0, 0, 12, 0, 0, 0, 9, 'k', 'e', 'y', '!'}
	password := append([]byte{'p', 0, 0, 0, 12}, "hunter2\x00"...)
	query := append([]byte{'Q', 0, 0, 0, 40}, "ALTER ROLE u PASSWORD 'it''s hunter2'\x00"...)
	query[4] = byte(len(query) - 1)
	up := slices.Concat(startup, password, query)
	for size := 1; size < len(up); size++ {
		name := filepath.Join(t.TempDir(), "c")
		w := open(t, Config{Path: name})
		w.Opened(1, "a", "b")
		sent := false
		for b := up; len(b) > 0; {
			n := min(size, len(b))
			if len(up)-len(b) >= len(startup) && !sent {
				w.Record(1, trace.Downstream, ask)
				sent = true
			}
			w.Record(1, trace.Upstream, b[:n])
			b = b[n:]
		}
		w.Closed(1)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		_, gotUp, gotDown, _ := records(t, name)
		if bytes.Contains(gotUp, []byte("hunter2")) || bytes.Contains(gotDown, []byte("key!")) {
			t.Fatalf("in pieces of %d: %q %q", size, gotUp, gotDown)
		}
		if len(gotUp) != len(up) || len(gotDown) != len(ask) {
			t.Errorf("in pieces of %d: %d bytes of %d, %d of %d", size, len(gotUp), len(up), len(gotDown), len(ask))
		}
	}
}

// TestRotation fills files: each can be read by itself, and together they have
// every byte.
func TestRotation(t *testing.T) {
	name := filepath.Join(t.TempDir(), "c")
	w := open(t, Config{Path: name, MaxSize: 4000})
	w.Opened(1, "a", "b")
	w.Record(1, trace.Upstream, startup)
	down := protocol.AppendReadyForQuery([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 0})
	w.Record(1, trace.Downstream, down)
	query := append([]byte{'Q', 0, 0, 0, 39}, "START_REPLICATION PHYSICAL 0/3000000\x00"...)
	query[4] = byte(len(query) - 1)
	w.Record(1, trace.Upstream, query)
	w.Record(1, trace.Downstream, protocol.AppendCopyBothResponse(nil))
	for i := range 40 {
		x := protocol.XLogData{DataStart: protocol.LSN(0x3000000 + i*500), WALEnd: 0x4000000, SendTime: 849232000000000, Data: make([]byte, 500)}
		f := protocol.AppendCopyData(nil, x.Append(nil))
		w.Record(1, trace.Downstream, f[:100])
		w.Record(1, trace.Downstream, f[100:])
	}
	w.Closed(1)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(name + "*")
	if err != nil || len(files) < 4 {
		t.Fatalf("files are %v, %v", files, err)
	}
	kinds, _, _, _ := records(t, name)
	if kinds[0] != protocol.CaptureResumed {
		t.Errorf("a later file begins with %v", kinds[0])
	}
	var broken int
	for _, f := range files {
		s := trace.NewSession(trace.Config{At: -1}, 1, func(m *trace.Message) {
			if m.Name == "Break" || m.Name == "Gap" {
				broken++
			}
		})
		file, err := os.Open(f)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		var rec protocol.CaptureRecord
		for r.Next(&rec) == nil {
			switch rec.Kind {
			case protocol.CaptureResumed:
				var m protocol.CaptureResume
				if err := m.Decode(rec.Payload); err != nil || m.Copy != byte(trace.CopyPhysical) {
					t.Errorf("%s resumes with %+v, %v", f, m, err)
				}
				s.Resume(&m)
			case protocol.CaptureDownstream:
				s.Feed(trace.Downstream, rec.Time, 0, rec.Payload)
			case protocol.CaptureUpstream:
				s.Feed(trace.Upstream, rec.Time, 0, rec.Payload)
			}
		}
		s.End()
		_ = file.Close()
	}
	if broken > 0 {
		t.Errorf("%d breaks and gaps in files that follow each other", broken)
	}

	w = open(t, Config{Path: filepath.Join(t.TempDir(), "d"), MaxSize: 3000, MaxFiles: 2})
	w.Opened(1, "a", "b")
	for range 20 {
		w.Record(1, trace.Downstream, make([]byte, 1000))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(w.cfg.Path + "*"); len(files) != 2 {
		t.Errorf("files are %v, want 2", files)
	}
}

// TestAppendToATornFile goes on behind the last whole record.
func TestAppendToATornFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "c")
	w := open(t, Config{Path: name})
	w.Opened(5, "a", "b")
	w.Record(5, trace.Upstream, startup)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, info.Size()-3); err != nil {
		t.Fatal(err)
	}
	w = open(t, Config{Path: name})
	w.Opened(1, "a", "b")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	kinds, _, _, connections := records(t, name)
	if !slices.Equal(kinds, []protocol.CaptureKind{protocol.CaptureOpened, protocol.CaptureOpened}) || connections[1] != connections[0]+1 {
		t.Errorf("records are %v of %v", kinds, connections)
	}
	if _, err := Open(Config{Path: name, ShowSecrets: true}); err == nil {
		t.Error("masked and unmasked parts in one file")
	}
}

func TestTornIsNotDamaged(t *testing.T) {
	rec := protocol.CaptureRecord{Kind: protocol.CaptureUpstream, Payload: []byte("payload")}
	b := rec.Append((&protocol.CaptureHeader{}).Append(nil))
	b = rec.Append(b)
	for n := 29; n < len(b); n++ {
		r, err := NewReader(bytes.NewReader(b[:n]))
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			err = r.Next(&rec)
		}
		whole := n == 28+31
		if whole && err != io.EOF || !whole && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// A file that is appended to is its owner's alone from then on, whatever it was.
func TestAppendKeepsOthersOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c")
	if err := open(t, Config{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := open(t, Config{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
