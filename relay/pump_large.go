package relay

import "errors"

// Sizes of what goes past this process, measured on frames of 128 KiB.
const (
	// unseenFrom is the least rest of a frame that is worth it: below, copying is
	// cheaper than two more system calls.
	unseenFrom = 32 << 10

	// largeHead is how much is read where a large frame is expected to begin:
	// enough to decide on any frame (slotFrameHead), and little to copy.
	largeHead = 64

	// pipeSize is for 128 fragments: a fill of bufferSize has 90 of a network's.
	pipeSize = 512 << 10
)

// errNoPipe says that the kernel does not move bytes between these sockets.
var errNoPipe = errors.New("splice(2) does not work here")

// unseen reports whether what comes next can go past this process: the rest of a
// large frame, from one bare socket to another. Nobody needs to see it, for it is
// neither taken out nor recorded.
func (p *pump) unseen() bool {
	return p.flow.Unseen() >= unseenFrom && p.mayUsePipe() && p.pipe.open()
}

func (p *pump) mayUsePipe() bool {
	return p.dir == Downstream && !p.pipe.refused && p.from.bare() && p.to.bare()
}

// readSize is how much to read at once: all there is, but between large frames
// only what tells whether another one begins, since what has been read cannot go
// past this process any more.
func (p *pump) readSize() int {
	if p.flow.frame >= unseenFrom && !p.flow.taking && p.mayUsePipe() {
		return p.flow.Unseen() + largeHead
	}
	return bufferSize
}

// forwardUnseen forwards the n bytes in the pipe. Behind the frame's end there may
// be something of ours to say, if nothing else comes at once.
func (p *pump) forwardUnseen(n int) error {
	p.s.mu.Lock()
	p.flow.Pass(n)
	p.more = p.speaker != nil && p.flow.AtBoundary()
	p.s.mu.Unlock()
	p.s.relay.metrics.moved(p.dir, n)
	if err := p.pipe.pour(p.to, n); err != nil {
		return &downstreamGoneError{err}
	}
	p.wrote.Add(uint64(n))
	return p.stop()
}
