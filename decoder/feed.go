package decoder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgio"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/internal/conninfo"
	"github.com/slotferry/slotferry/internal/contain"
	"github.com/slotferry/slotferry/protocol"
)

// Feed bounds. A relay sends at least a heartbeat each second.
const (
	feedConnectTimeout = 10 * time.Second
	feedSilence        = 15 * time.Second // without a message, or with a report unsent, the connection counts as dead
	feedReportEvery    = 10 * time.Second // a report is repeated, should the relay have lost its memory
	feedMinBackoff     = 250 * time.Millisecond
	feedMaxBackoff     = 5 * time.Second

	// feedMaxBody is the longest message a relay may send. Parts of slot messages are
	// much shorter (protocol.MaxPartBody), errors are, too.
	feedMaxBody = 1 << 20
)

// ErrNoRelay means that the server at the upstream address is not a relay.
var ErrNoRelay = errors.New("the server at this address is not a slotferry relay")

// FeedConfig is what a Feed needs.
type FeedConfig struct {
	Upstream string // conninfo of the relay; logs in like any replication client
	Helper   *Helper
	Logger   zerolog.Logger
}

// Feed brings slot messages to a sidecar helper: a replication connection to the
// relay that carries nothing else.
type Feed struct {
	cfg    FeedConfig
	config *pgconn.Config
}

// NewFeed checks the conninfo. It connects nowhere.
func NewFeed(cfg FeedConfig) (*Feed, error) {
	config, err := pgconn.ParseConfig(cfg.Upstream)
	if err != nil {
		return nil, fmt.Errorf("parse the relay's conninfo: %w", err)
	}
	if config.ChannelBinding == "prefer" {
		// What a relay that ends TLS cannot offer must not be missed either: a server
		// behind it takes the remark for an attack (auth-scram.c).
		config.ChannelBinding = "disable"
	}
	config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		front := pgproto3.NewFrontend(r, w)
		front.SetMaxBodyLen(feedMaxBody) // from the first message on
		return front
	}
	conninfo.LeaveOut(config)
	config.RuntimeParams["replication"] = "true"
	config.RuntimeParams["_pq_.slotferry"] = "1"
	config.RuntimeParams["application_name"] = applicationName
	config.RuntimeParams["idle_session_timeout"] = "0" // the walsender behind the relay has nothing to do; known from 14 on
	return &Feed{cfg: cfg, config: config}, nil
}

// Run keeps the feed connected until the context ends.
func (f *Feed) Run(ctx context.Context) error {
	backoff := feedMinBackoff
	said := ""
	for ctx.Err() == nil {
		start := time.Now()
		err := f.cfg.Helper.panics.Do("feed", f.cfg.Logger, func() error { return f.session(ctx) })
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, ErrNoRelay) {
			f.cfg.Helper.NoRelay()
		} else {
			f.cfg.Helper.UpstreamTrouble(sqlState(err), err.Error())
		}
		if time.Since(start) > feedMaxBackoff {
			backoff, said = feedMinBackoff, ""
		}
		if msg := err.Error(); msg != said {
			said = msg
			f.cfg.Logger.Warn().Err(err).Str("hint", feedHint(err)).Msg("feed from the relay is down")
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, feedMaxBackoff)
	}
	return nil
}

func feedHint(err error) string {
	switch code := sqlState(err); {
	case contain.Is(err):
		return contain.Hint
	case errors.Is(err, ErrNoRelay):
		return ReasonNoRelay.Hint()
	case code == codePassword || code == codeAuthorization || code == codePrivilege:
		return "Check the user and the password of --upstream, that the role has REPLICATION, and that pg_hba.conf there lets it in for replication."
	case code != "":
		return ""
	}
	return ReasonUpstreamUnreachable.Hint()
}

// session is one connection to the relay. Its error says why it ended.
func (f *Feed) session(ctx context.Context) error {
	connectCtx, cancel := context.WithTimeout(ctx, feedConnectTimeout)
	pg, err := pgconn.ConnectConfig(connectCtx, f.config)
	cancel()
	if err != nil {
		return fmt.Errorf("connect to the relay: %w", err)
	}
	hijacked, err := pg.Hijack()
	if err != nil {
		return fmt.Errorf("connect to the relay: %w", err)
	}
	conn, front := hijacked.Conn, hijacked.Frontend
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var writer sync.WaitGroup
	defer writer.Wait()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends both directions
	defer conn.Close()
	defer stop()

	_ = conn.SetWriteDeadline(time.Now().Add(feedSilence)) // a closed connection shows in Flush
	front.Send(&pgproto3.Query{String: "SLOT_STATE"})
	if err := front.Flush(); err != nil {
		return fmt.Errorf("ask the relay for slot state: %w", err)
	}
	var parts protocol.Assembler
	var damaged bool
	for streaming := false; ; {
		_ = conn.SetReadDeadline(time.Now().Add(feedSilence)) // a closed connection shows in Receive
		msg, err := front.Receive()
		if err != nil {
			return fmt.Errorf("receive slot state: %w", err)
		}
		switch msg := msg.(type) {
		case *pgproto3.ErrorResponse:
			err := pgconn.ErrorResponseToPgError(msg)
			if !streaming && (err.Code == codeSyntaxError || err.Code == codeFeature) {
				return fmt.Errorf("ask for slot state: %w", ErrNoRelay)
			}
			return fmt.Errorf("receive slot state: %w", err)
		case *pgproto3.CopyBothResponse:
			streaming = true
			f.cfg.Logger.Info().Msg("feed from the relay is up")
			writer.Go(func() {
				err := f.cfg.Helper.panics.Do("reports of the feed", f.cfg.Logger, func() error { f.sendReports(ctx, conn); return nil })
				if err != nil {
					_ = conn.Close() // the reader sees it and says so
				}
			})
		case *pgproto3.CopyData:
			if err := f.take(&parts, msg.Data); err != nil && !damaged {
				damaged = true // said once for each connection
				f.cfg.Logger.Warn().Err(err).Str("hint", "Run the same version of slotferry on both sides.").Msg("slot messages cannot be read")
			}
		case *pgproto3.CopyDone:
			return errors.New("receive slot state: the relay ended the stream")
		}
	}
}

// What a server that is not a relay says to SLOT_STATE: on a connection for
// physical replication only, that it is no SQL.
const (
	codeSyntaxError = "42601"
	codeFeature     = "0A000"
)

// take hands whole slot messages to the helper. What cannot be read only delays:
// the next message is the whole state again.
func (f *Feed) take(parts *protocol.Assembler, data []byte) error {
	var x protocol.XLogData
	if len(data) == 0 || data[0] != protocol.MsgXLogData || x.Decode(data[1:]) != nil ||
		x.DataStart != protocol.InvalidLSN || !protocol.HasSlotMagic(x.Data) {
		return nil
	}
	m, err := parts.Add(x.Data)
	if m != nil {
		f.cfg.Helper.Deliver(m)
	}
	return err
}

// sendReports sends the helper's report when there is a new one, and now and
// then the same again. When one cannot be sent in time it closes the connection:
// the relay would go on without, and hand on what was true once.
func (f *Feed) sendReports(ctx context.Context, conn net.Conn) {
	for {
		body, changed := f.cfg.Helper.Report()
		payload, err := body.Append(nil)
		if err != nil {
			f.cfg.Logger.Warn().Err(err).Msg("helper report cannot be sent")
		} else {
			frame := pgio.AppendUint32([]byte{'d'}, uint32(len(payload)+4))
			_ = conn.SetWriteDeadline(time.Now().Add(feedSilence))
			if _, err := conn.Write(append(frame, payload...)); err != nil {
				_ = conn.Close() // the reader sees it and says so
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-time.After(feedReportEvery):
		}
	}
}
