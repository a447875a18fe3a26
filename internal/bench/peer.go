package main

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"github.com/slotferry/slotferry/protocol"
)

// roleVariable makes a process of this program one end of a chain.
const roleVariable = "SLOTFERRY_BENCH_ROLE"

// workload is what the walsender sends.
type workload struct {
	Kind   string        // bulk, small, paced or ping
	Bytes  int           // of bulk and small
	Length time.Duration // of paced and ping
	OptIn  bool          // the walreceiver wants slot messages
	Cert   string        // file of certificate and key for TLS; empty: none
}

// outcome is what the walsender measured.
type outcome struct {
	Bytes   int
	Seconds float64
	Pings   int
	P50     float64 // microseconds
	P99     float64
}

// Sizes of frames: what a walsender sends when there is much (MAX_SEND_SIZE,
// walsender.c), and what small transactions give.
const (
	bulkFrame  = 128 << 10
	smallFrame = 200
	pacedFrame = 4 << 10
	pacedRate  = 40 << 20
)

// stream is a connection of a peer: the socket itself, in blocking mode, or TLS.
type stream interface {
	io.Reader
	io.Writer
}

// socket makes one system call for each Read and Write, and nothing else. The
// peers have one goroutine, so nothing is held up.
type socket struct {
	file *os.File // kept, for its finalizer closes fd
	fd   uintptr
}

func (s socket) Read(b []byte) (int, error) { return s.call(syscall.SYS_READ, b) }

// Write goes on where a signal, as the scheduler sends them, has interrupted it.
func (s socket) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = s.call(syscall.SYS_WRITE, b[n:])
		n += m
	}
	return n, err
}

func (s socket) call(trap uintptr, b []byte) (int, error) {
	for {
		n, _, e := syscall.RawSyscall(trap, s.fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		switch {
		case e == syscall.EINTR:
		case e != 0:
			return 0, e
		case n == 0 && trap == syscall.SYS_READ:
			return 0, io.EOF
		default:
			return int(n), nil
		}
	}
}

func blocking(conn net.Conn) (stream, error) {
	_ = conn.(*net.TCPConn).SetNoDelay(true)
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		return nil, err
	}
	return socket{file, file.Fd()}, nil // Fd makes it block
}

// playRole is the main of a peer. Args: a JSON workload, then for the walreceiver
// the port, for the walsender nothing: it prints its port, then its outcome.
func playRole(role string, args []string) error {
	var w workload
	if err := json.Unmarshal([]byte(args[0]), &w); err != nil {
		return err
	}
	switch role {
	case "walsender":
		return w.send()
	case "walreceiver":
		return w.receive("127.0.0.1:" + args[1])
	default:
		return fmt.Errorf("no such role")
	}
}

var startReplication = func() []byte {
	const text = "START_REPLICATION 0/3000000\x00"
	return append(binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(len(text)+4)), text...)
}()

var welcome = func() []byte {
	b := []byte{'R', 0, 0, 0, 8, 0, 0, 0, 0, 'K', 0, 0, 0, 12, 0, 0, 0, 42, 1, 2, 3, 4}
	return protocol.AppendReadyForQuery(b)
}()

var (
	ping = protocol.AppendCopyData(nil, (&protocol.PrimaryKeepalive{WALEnd: 0x3000000}).Append(nil))
	pong = protocol.AppendCopyData(nil, (&protocol.StandbyStatusUpdate{}).Append(nil))
)

// walFrames returns frames of a size, as many as fit into limit.
func walFrames(size, limit int) []byte {
	var b []byte
	for at := protocol.LSN(0x3000000); len(b)+size <= limit; {
		m := protocol.XLogData{DataStart: at, WALEnd: at, Data: make([]byte, size-protocol.FrameHeaderLen-protocol.XLogDataHeaderLen)}
		b = protocol.AppendCopyData(b, m.Append(nil))
		at += protocol.LSN(len(m.Data))
	}
	return b
}

// send is the walsender: one session.
func (w workload) send() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		s, err := w.secure(conn)
		if err == nil {
			err = serveStartup(s)
		}
		if err != nil { // a look whether somebody listens
			_ = conn.Close()
			continue
		}
		out, err := w.run(s)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(out)
	}
}

func (w workload) secure(conn net.Conn) (stream, error) {
	if w.Cert == "" {
		return blocking(conn)
	}
	pair, err := tls.LoadX509KeyPair(w.Cert, w.Cert)
	if err != nil {
		return nil, err
	}
	return tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"postgresql"},
		DynamicRecordSizingDisabled: true}), nil
}

// serveStartup answers a startup packet and START_REPLICATION.
func serveStartup(s stream) error {
	var head [4]byte
	if _, err := io.ReadFull(s, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < 8 || n > 10000 {
		return errors.New("no startup packet")
	}
	if _, err := io.ReadFull(s, make([]byte, n-4)); err != nil {
		return err
	}
	if _, err := s.Write(welcome); err != nil {
		return err
	}
	if _, err := io.ReadFull(s, make([]byte, len(startReplication))); err != nil {
		return err
	}
	_, err := s.Write(protocol.AppendCopyBothResponse(nil))
	return err
}

// run sends, and waits until the walreceiver says that it has all.
func (w workload) run(s stream) (out outcome, err error) {
	began := time.Now()
	reply := make([]byte, len(pong))
	switch w.Kind {
	case "ping":
		var times []float64
		for time.Since(began) < w.Length {
			at := time.Now()
			if _, err := s.Write(ping); err != nil {
				return out, err
			}
			if _, err := io.ReadFull(s, reply); err != nil {
				return out, err
			}
			times = append(times, float64(time.Since(at).Nanoseconds())/1e3)
		}
		slices.Sort(times)
		out.Pings, out.P50, out.P99 = len(times), times[len(times)/2], times[len(times)*99/100]
	case "paced":
		b := walFrames(pacedFrame, pacedFrame)
		for time.Since(began) < w.Length {
			ahead := time.Duration(float64(out.Bytes)/pacedRate*1e9) - time.Since(began)
			if ahead > 0 {
				pause := syscall.NsecToTimespec(ahead.Nanoseconds())
				_, _, _ = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
			}
			n, err := s.Write(b)
			out.Bytes += n
			if err != nil {
				return out, err
			}
		}
	default:
		b := walFrames(bulkFrame, bulkFrame)
		if w.Kind == "small" {
			b = walFrames(smallFrame, 32<<10)
		}
		for out.Bytes < w.Bytes {
			n, err := s.Write(b)
			out.Bytes += n
			if err != nil {
				return out, err
			}
		}
	}
	if _, err := s.Write(protocol.AppendCopyDone(nil)); err != nil {
		return out, err
	}
	_, err = io.ReadFull(s, reply[:1])
	out.Seconds = time.Since(began).Seconds()
	return out, err
}

// receive is the walreceiver. It reads until CopyDone, which is the only thing
// that a read may end with and that does not end in a frame of WAL.
func (w workload) receive(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	var s stream
	if w.Cert == "" {
		s, err = blocking(conn)
	} else {
		s = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"postgresql"}, DynamicRecordSizingDisabled: true})
	}
	if err != nil {
		return err
	}
	startup := protocol.StartupMessage{Version: protocol.ProtocolVersion3, Parameters: []protocol.StartupParameter{
		{Name: "user", Value: "x"}, {Name: "replication", Value: "true"}}}
	if w.OptIn {
		startup.Parameters = append(startup.Parameters, protocol.StartupParameter{Name: protocol.OptInParameter, Value: protocol.OptInValue})
	}
	if _, err := s.Write(startup.Append(nil)); err != nil {
		return err
	}
	if _, err := io.ReadFull(s, make([]byte, len(welcome))); err != nil {
		return err
	}
	if _, err := s.Write(startReplication); err != nil {
		return err
	}
	if _, err := io.ReadFull(s, make([]byte, len(protocol.AppendCopyBothResponse(nil)))); err != nil {
		return err
	}
	if w.Kind == "ping" {
		return answer(s)
	}
	done := protocol.AppendCopyDone(nil)
	b := make([]byte, 256<<10)
	for {
		n, err := s.Read(b)
		if err != nil {
			return err
		}
		if n >= len(done) && string(b[n-len(done):n]) == string(done) {
			_, err := s.Write(pong)
			return err
		}
	}
}

// answer answers every keepalive, up to CopyDone. Slot messages may come in between.
func answer(s stream) error {
	b, n := make([]byte, 256<<10), 0
	for {
		m, err := s.Read(b[n:])
		if err != nil {
			return err
		}
		n += m
		for n >= protocol.FrameHeaderLen {
			size := 1 + int(binary.BigEndian.Uint32(b[1:]))
			if n < size {
				break
			}
			done := b[0] == protocol.FrameCopyDone
			if done || b[protocol.FrameHeaderLen] == protocol.MsgPrimaryKeepalive {
				if _, err := s.Write(pong); err != nil {
					return err
				}
			}
			if done {
				return nil
			}
			n = copy(b, b[size:n])
		}
	}
}
