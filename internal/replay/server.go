package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/protocol"
)

// Config says how to replay.
type Config struct {
	Recording *Recording

	// KeepTime sends each piece as long after the one before as it was recorded.
	// Without it everything goes as fast as the downstream takes it.
	KeepTime bool

	Logger zerolog.Logger
}

// waitTimeout bounds how long the downstream may take to say what it said when
// it was recorded; what it says on its own account, feedback, is not waited for.
const waitTimeout = time.Minute

// Serve accepts connections until ctx ends, and plays the recording to each.
func Serve(ctx context.Context, l net.Listener, cfg Config) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for n := 1; ; n++ {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("accept a connection: %w", err)
		}
		p := &player{cfg: cfg, conn: conn, said: make(chan []byte)}
		log := cfg.Logger.With().Int("connection", n).Stringer("downstream", conn.RemoteAddr()).Logger()
		log.Info().Msg("replay begins")
		wg.Go(func() {
			if err := p.run(ctx); err != nil {
				log.Warn().Err(err).Msg("replay ended")
				return
			}
			log.Info().Msg("replay ended")
		})
	}
}

// player plays the recording to one connection, which it owns.
type player struct {
	cfg  Config
	conn net.Conn
	said chan []byte // frames from the downstream that are to be waited for

}

// run plays to the end of the recording, or until the downstream goes.
func (p *player) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(ctx, func() { _ = p.conn.Close() })
	var wg sync.WaitGroup
	wg.Go(func() { cancel(p.listen(ctx)) })
	err := p.play(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		err = nil // the downstream has gone, as it may
	}
	cancel(nil)
	stop()
	_ = p.conn.Close()
	wg.Wait()
	return err
}

// play sends what the upstream said, and waits where the downstream spoke first.
func (p *player) play(ctx context.Context) error {
	var buf []byte
	var last int64
	recorded := framer{typed: true}
	if err := p.logIn(ctx); err != nil {
		return err
	}
	for _, piece := range p.cfg.Recording.pieces {
		b, err := p.cfg.Recording.read(piece, buf)
		if err != nil {
			return err
		}
		if cap(b) > cap(buf) {
			buf = b
		}
		if piece.upstream {
			recorded.add(b)
			for frame := recorded.next(); frame != nil; frame = recorded.next() {
				if err := p.await(ctx, frame); err != nil {
					return err
				}
			}
			last = piece.time
			continue
		}
		if p.cfg.KeepTime && last != 0 {
			if err := rest(ctx, time.Duration(piece.time-last)*time.Microsecond); err != nil {
				return err
			}
		}
		last = piece.time
		if _, err := p.conn.Write(b); err != nil {
			return fmt.Errorf("write to downstream: %w", err)
		}
	}
	return nil
}

// logIn lets the downstream in, whoever it is, and tells it what the upstream told
// when it was recorded.
func (p *player) logIn(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case got := <-p.said:
			switch kind(got) {
			case "SSLRequest", "GSSENCRequest":
				if _, err := p.conn.Write([]byte{'N'}); err != nil {
					return fmt.Errorf("write to downstream: %w", err)
				}
				continue
			case "CancelRequest":
				return io.EOF
			}
			ok := []byte{protocol.FrameAuthentication, 0, 0, 0, 8, 0, 0, 0, protocol.AuthOK}
			if _, err := p.conn.Write(append(ok, p.cfg.Recording.login...)); err != nil {
				return fmt.Errorf("write to downstream: %w", err)
			}
			return nil
		}
	}
}

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// await waits until the downstream says a frame of the kind that it said when it
// was recorded. Feedback is not waited for: it comes when it comes.
func (p *player) await(ctx context.Context, want []byte) error {
	if !turn(want) {
		return nil
	}
	t := time.NewTimer(waitTimeout)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case got := <-p.said:
		if got[0] == protocol.FrameTerminate {
			return io.EOF
		}
		if kind(got) != kind(want) {
			return fmt.Errorf("downstream sent %s, where it sent %s when it was recorded", kind(got), kind(want))
		}
		if want[0] == protocol.FrameQuery && !bytes.Equal(got, want) {
			p.cfg.Logger.Info().Bytes("asked", text(got)).Bytes("recorded", text(want)).
				Msg("the downstream asks something else; it gets the recorded answer")
		}
		return nil
	case <-t.C:
		return fmt.Errorf("downstream did not send %s within %v, as it did when it was recorded", kind(want), waitTimeout)
	}
}

// listen reads what the downstream says until it goes.
func (p *player) listen(ctx context.Context) error {
	var f framer
	buf := make([]byte, 32<<10)
	for {
		n, err := p.conn.Read(buf)
		f.add(buf[:n])
		for frame := f.next(); frame != nil; frame = f.next() {
			if !turn(frame) {
				continue
			}
			select {
			case p.said <- bytes.Clone(frame):
			case <-ctx.Done():
				return nil
			}
		}
		switch {
		case f.err != nil:
			return f.err
		case err != nil:
			return err
		}
	}
}
