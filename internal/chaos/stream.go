package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/internal/bank"
	"github.com/slotferry/slotferry/internal/cluster"
)

// SQLSTATEs that tell a consumer that its slot cannot be had any more.
const (
	codeNoSlot      = "42704"
	codeInvalidSlot = "55000"
)

// stream is a consumer of a test_decoding slot that goes on wherever applications
// find the primary.
type stream struct {
	database string
	from     int64 // transactions after this number are owed to it
	consumer *bank.Consumer
	cancel   context.CancelFunc
	done     chan struct{}

	current   func() *cluster.Server               // the primary; nil: there is none
	walsender func(*cluster.Server) bank.Walsender // where to connect to stream from it

	mu      sync.Mutex
	dropped bool
	held    bool
	end     context.CancelFunc // of the connection under way
	refused string
}

// bear makes a slot on the primary and a consumer of it.
func (w *world) bear(ctx context.Context, database, slot string) error {
	primary, _ := w.roles()
	err := primary.Server.Exec(ctx, database, fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', '%s')", slot, testDecoding))
	if err != nil {
		return err
	}
	s := &stream{
		database: database, from: w.traffic[database].Last(), consumer: bank.NewConsumer(database, slot), done: make(chan struct{}),
		current: w.serving.Load, walsender: w.walsenderOf,
	}
	ctx, s.cancel = context.WithCancel(ctx)
	w.mu.Lock()
	w.streams[slot] = s
	w.mu.Unlock()
	go s.run(ctx)
	return nil
}

// walsenderOf is where a consumer connects to stream from a server: behind hold-back
// by the same way as the subscriptions.
func (w *world) walsenderOf(s *cluster.Server) bank.Walsender {
	if w.schedule.HoldBack {
		return front(w.legs.subscriber.Port())
	}
	return s
}

// front is the port of what leads to the primary.
type front uint16

// ConnectReplication opens a walsender session.
func (p front) ConnectReplication(ctx context.Context, dbname string) (*pgconn.PgConn, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	return pgconn.Connect(ctx, fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=%s replication=database sslmode=disable", p, dbname))
}

// retryPause is how long a consumer waits before it connects again.
const retryPause = 50 * time.Millisecond

// run consumes until ctx ends or the server says that there is no such slot.
func (s *stream) run(ctx context.Context) {
	defer close(s.done)
	for ctx.Err() == nil {
		if server := s.current(); server != nil {
			s.consume(ctx, server)
		}
		var refused *pgconn.PgError
		if err := s.consumer.Failed(); errors.As(err, &refused) && (refused.Code == codeNoSlot || refused.Code == codeInvalidSlot) {
			s.mu.Lock()
			s.refused = err.Error()
			s.mu.Unlock()
			return
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
	}
}

// consume streams from a server until it is not the current one any more.
func (s *stream) consume(ctx context.Context, server *cluster.Server) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	held := s.held
	s.end = cancel
	s.mu.Unlock()
	if held || server != s.current() {
		return
	}
	s.consumer.Consume(ctx, s.walsender(server))
}

// hold keeps the consumer from consuming, or lets it.
func (s *stream) hold(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = on
	if on && s.end != nil {
		s.end()
	}
}

// stop ends the consumer and waits for that.
func (s *stream) stop() {
	s.cancel()
	<-s.done
}

// drop ends the consumer since its slot is to be dropped.
func (s *stream) drop() {
	s.mu.Lock()
	s.dropped = true
	s.mu.Unlock()
	s.stop()
}

// ended reports whether the consumer will not come back: its slot was dropped, or
// refused to it.
func (s *stream) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// words returns what the server said when it refused the slot.
func (s *stream) words() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}
