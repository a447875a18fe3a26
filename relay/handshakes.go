package relay

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// maxHandshakes is how many connections may be in their handshake at once, from
// accept to the upstream's first word. There a peer has not shown yet who it is,
// and costs a file descriptor or two. Standbys need one at a time.
const maxHandshakes = 1000

// handshakes are the connections that are in their handshake. When there are too
// many the oldest has to go: a handshake takes milliseconds, so the oldest is one
// that nobody means to finish, and whoever does gets through.
type handshakes struct {
	mu   sync.Mutex
	list []handshaking // oldest first
}

type handshaking struct {
	id     uint64
	cancel context.CancelCauseFunc
}

// enter adds a session. The context it returns ends when the session has to go,
// with an *ending as its cause. leave has to be called.
func (h *handshakes) enter(ctx context.Context, id uint64) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, handshaking{id, cancel})
	if len(h.list) > maxHandshakes {
		h.list[0].cancel(errCrowded)
		h.list = slices.Delete(h.list, 0, 1)
	}
	return ctx, func() {
		h.leave(id)
		cancel(nil)
	}
}

func (h *handshakes) leave(id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = slices.DeleteFunc(h.list, func(s handshaking) bool { return s.id == id })
}

var errCrowded = &ending{
	code: codeTooManyConnections, message: fmt.Sprintf("more than %d connections have not logged in yet", maxHandshakes),
	hint: "Something opens connections and does not use them: the relay's log has their addresses.",
	err:  fmt.Errorf("more than %d connections are in their handshake: this one was the oldest", maxHandshakes),
}
