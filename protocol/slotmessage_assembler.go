package protocol

// Assembler joins the parts of slot messages of one connection. It keeps at
// most one unfinished message, and applies nothing until that is whole: a
// part out of order, or of another message, throws the unfinished one away.
// The zero value is ready to use.
type Assembler struct {
	next    Part // header of the unfinished message; Number is the part that must come next
	payload []byte
}

// Add takes the body of one part, the Data of a 0/0 XLogData that HasSlotMagic.
// It returns the whole message when this part completes one, and nil when more
// parts are missing. An error means that the part is damaged or does not fit;
// the body is to be stripped all the same.
func (a *Assembler) Add(body []byte) (*SlotMessage, error) {
	var p Part
	if err := p.Decode(body); err != nil {
		a.Reset()
		return nil, err
	}
	if p.Number == 0 {
		a.next, a.payload = p, a.payload[:0]
		a.next.Chunk = nil // the caller's memory
	}
	if !a.continues(&p) {
		a.Reset()
		return nil, &MessageError{Message: "SlotMessage part", Offset: partNumberAt, Err: ErrInvalid}
	}
	a.payload = append(a.payload, p.Chunk...)
	a.next.Number = p.Number + 1
	if a.next.Number < p.Count {
		return nil, nil
	}
	payload := a.payload
	a.Reset()
	if len(payload) != int(p.PayloadLen) || checksum(payload) != p.PayloadCRC {
		return nil, &MessageError{Message: "SlotMessage", Offset: len(payload), Err: ErrChecksum}
	}
	m := &SlotMessage{Epoch: p.Epoch, Sequence: p.Sequence}
	if err := m.decodePayload(payload); err != nil {
		return nil, err
	}
	return m, nil
}

// Reset forgets an unfinished message, as at the start of a new copy-both.
func (a *Assembler) Reset() { *a = Assembler{} }

func (a *Assembler) continues(p *Part) bool {
	n := &a.next
	return p.Number == n.Number && p.Count == n.Count && p.Epoch == n.Epoch && p.Sequence == n.Sequence &&
		p.PayloadLen == n.PayloadLen && p.PayloadCRC == n.PayloadCRC &&
		len(a.payload)+len(p.Chunk) <= int(p.PayloadLen)
}
