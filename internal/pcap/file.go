package pcap

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxPacket is the size cap of a packet in bytes: MAXIMUM_SNAPLEN (tcpdump) is
// 262,144, and Wireshark's largest is the same.
const maxPacket = 1 << 20

// ErrDamaged says that a file cannot be read on.
var ErrDamaged = errors.New("packet capture is damaged")

// packet is one packet of a file.
type packet struct {
	time   int64 // microseconds since the Unix epoch
	link   uint32
	data   []byte // valid until the next one
	offset int64  // of data in the file
}

// file reads packets. It counts what it has read.
type file struct {
	r    *bufio.Reader
	pos  int64
	body int64 // of pos, in packets' data
	buf  []byte

	order binary.ByteOrder

	// Of a classic file.
	nano bool
	link uint32

	// Of pcapng: the interfaces of the section.
	ng         bool
	interfaces []ngInterface
}

const (
	magicMicro = 0xA1B2C3D4
	magicNano  = 0xA1B23C4D
	magicNg    = 0x0A0D0D0A // a Section Header Block, in either byte order
)

// HasMagic reports whether a file that begins with b is a packet capture.
func HasMagic(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	for _, v := range []uint32{binary.LittleEndian.Uint32(b), binary.BigEndian.Uint32(b)} {
		if v == magicMicro || v == magicNano || v == magicNg {
			return true
		}
	}
	return false
}

// open reads a file's header. With an error it still has counted what it read.
func open(src io.Reader) (*file, error) {
	f := &file{r: bufio.NewReaderSize(src, 256<<10), order: binary.LittleEndian}
	magic, err := f.r.Peek(4)
	if err != nil {
		return f, fmt.Errorf("read packet capture: %w", unexpected(err))
	}
	if binary.LittleEndian.Uint32(magic) == magicNg {
		f.ng = true
		return f, nil
	}
	var h [24]byte
	if err := f.read(h[:]); err != nil {
		return f, fmt.Errorf("read packet capture: it ends within its header: %w", unexpected(err))
	}
	if m := binary.BigEndian.Uint32(h[:]); m == magicMicro || m == magicNano {
		f.order = binary.BigEndian
	}
	f.nano = f.order.Uint32(h[:]) == magicNano
	f.link = f.order.Uint32(h[20:]) & 0x0FFFFFFF // the upper bits tell of a frame check sequence
	return f, nil
}

// next reads a packet. io.EOF is the end behind a whole one,
// io.ErrUnexpectedEOF the end within one, ErrDamaged that it cannot go on.
func (f *file) next(p *packet) error {
	if f.ng {
		return f.nextNg(p)
	}
	var h [16]byte
	if err := f.read(h[:]); err != nil {
		return err
	}
	captured := f.order.Uint32(h[8:])
	fraction := int64(f.order.Uint32(h[4:]))
	if f.nano {
		fraction /= 1000
	}
	if captured > maxPacket || fraction >= 1e6 {
		return fmt.Errorf("%w: no packet begins at byte %d", ErrDamaged, f.pos-16)
	}
	p.time, p.link = int64(f.order.Uint32(h[0:]))*1e6+fraction, f.link
	return f.data(p, int(captured))
}

// data reads a packet's data.
func (f *file) data(p *packet, n int) error {
	if cap(f.buf) < n {
		f.buf = make([]byte, n, max(n, 64<<10))
	}
	p.data, p.offset = f.buf[:n], f.pos
	if err := f.read(p.data); err != nil {
		return unexpected(err)
	}
	f.body += int64(n)
	return nil
}

// read fills b. io.EOF says that nothing was there.
func (f *file) read(b []byte) error {
	n, err := io.ReadFull(f.r, b)
	f.pos += int64(n)
	return err
}

// discard passes over n bytes.
func (f *file) discard(n int64) error {
	got, err := io.CopyN(io.Discard, f.r, n)
	f.pos += got
	return unexpected(err)
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
