package pcap

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Types of pcapng's blocks (draft-ietf-opsawg-pcapng).
const (
	blockInterface = 1
	blockPacket    = 2 // obsolete
	blockSimple    = 3
	blockEnhanced  = 6
	blockSection   = magicNg
)

const (
	maxBlock      = 16 << 20
	maxInterfaces = 1024
	maxOptions    = 64 << 10

	optionResolution = 9  // if_tsresol
	optionOffset     = 14 // if_tsoffset
)

// ngInterface is what packets are captured on.
type ngInterface struct {
	link    uint32
	snaplen uint32
	perSec  uint64 // units of time in a second
	offset  int64  // seconds
}

// micros converts a time of the interface.
func (i *ngInterface) micros(t uint64) int64 {
	sec, rest := t/i.perSec, t%i.perSec
	high, low := bits.Mul64(rest, 1e6)
	fraction, _ := bits.Div64(high, low, i.perSec) // rest < perSec, so high < perSec
	return (int64(sec)+i.offset)*1e6 + int64(fraction)
}

// nextNg reads blocks up to one with a packet.
func (f *file) nextNg(p *packet) error {
	for {
		begin := f.pos
		var h [12]byte
		if err := f.read(h[:8]); err != nil {
			return err
		}
		kind, head := f.order.Uint32(h[:]), int64(8)
		if kind == blockSection {
			if err := f.read(h[8:]); err != nil {
				return unexpected(err)
			}
			head = 12
			f.order = binary.LittleEndian
			if binary.BigEndian.Uint32(h[8:]) == 0x1A2B3C4D {
				f.order = binary.BigEndian
			}
			f.interfaces = nil
		}
		length := int64(f.order.Uint32(h[4:]))
		if length < head+4 || length%4 != 0 || length > maxBlock {
			return fmt.Errorf("%w: no block begins at byte %d", ErrDamaged, begin)
		}
		found, err := f.block(kind, begin+length-4, p)
		if err != nil {
			return err
		}
		if err := f.discard(begin + length - f.pos); err != nil {
			return err
		}
		if found {
			return nil
		}
	}
}

// block reads a block whose body ends at that position, as far as it is of use,
// and reports whether it has a packet.
func (f *file) block(kind uint32, end int64, p *packet) (found bool, err error) {
	var h [20]byte
	size := map[uint32]int{blockInterface: 8, blockPacket: 20, blockSimple: 4, blockEnhanced: 20}[kind]
	if size == 0 {
		return false, nil
	}
	if f.pos+int64(size) > end {
		return false, fmt.Errorf("%w: the block that ends at byte %d is too short", ErrDamaged, end+4)
	}
	if err := f.read(h[:size]); err != nil {
		return false, unexpected(err)
	}
	if kind == blockInterface {
		return false, f.addInterface(h[:8], end)
	}
	index, captured := 0, int64(0)
	switch kind {
	case blockEnhanced:
		index, captured = int(f.order.Uint32(h[:])), int64(f.order.Uint32(h[12:]))
	case blockPacket:
		index, captured = int(f.order.Uint16(h[:])), int64(f.order.Uint32(h[12:]))
	case blockSimple:
		captured = min(int64(f.order.Uint32(h[:])), end-f.pos)
	}
	if index >= len(f.interfaces) || captured > end-f.pos || captured > maxPacket {
		return false, fmt.Errorf("%w: the block that ends at byte %d is not a packet's", ErrDamaged, end+4)
	}
	i := &f.interfaces[index]
	p.link, p.time = i.link, 0
	if kind == blockSimple {
		if i.snaplen != 0 {
			captured = min(captured, int64(i.snaplen))
		}
	} else {
		p.time = i.micros(uint64(f.order.Uint32(h[4:]))<<32 | uint64(f.order.Uint32(h[8:])))
	}
	return true, f.data(p, int(captured))
}

// addInterface reads an Interface Description Block and its options.
func (f *file) addInterface(h []byte, end int64) error {
	if len(f.interfaces) >= maxInterfaces {
		return fmt.Errorf("%w: more than %d interfaces in a section", ErrDamaged, maxInterfaces)
	}
	i := ngInterface{link: uint32(f.order.Uint16(h)), snaplen: f.order.Uint32(h[4:]), perSec: 1e6}
	options := make([]byte, min(end-f.pos, maxOptions))
	if err := f.read(options); err != nil && len(options) > 0 {
		return unexpected(err)
	}
	for len(options) >= 4 {
		code, n := f.order.Uint16(options), int(f.order.Uint16(options[2:]))
		options = options[4:]
		if n > len(options) {
			break
		}
		switch value := options[:n]; {
		case code == optionResolution && n == 1:
			i.perSec = resolution(value[0])
		case code == optionOffset && n == 8:
			i.offset = int64(f.order.Uint64(value))
		}
		options = options[min((n+3)&^3, len(options)):]
	}
	f.interfaces = append(f.interfaces, i)
	return nil
}

// resolution reads if_tsresol: a power of ten, or of two where the highest bit is
// set. One that makes no sense is microseconds.
func resolution(v byte) uint64 {
	if v&0x80 != 0 {
		if v &= 0x7F; v < 64 {
			return 1 << v
		}
		return 1e6
	}
	n := uint64(1)
	for range v {
		if n > 1e18 {
			return 1e6
		}
		n *= 10
	}
	return n
}
