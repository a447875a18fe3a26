package relay

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/protocol"
)

// Mode says what a Relay does to physical replication streams.
type Mode int

// The modes of a Relay.
const (
	// ModePlain splices and strips nothing: solo's proxy, or a middlebox.
	ModePlain Mode = iota
	// ModeSplice puts slot messages into the streams of those who ask for them.
	ModeSplice
	// ModeStrip asks for slot messages and takes them out of the stream.
	ModeStrip
)

// String returns plain, splice or strip.
func (m Mode) String() string {
	switch m {
	case ModePlain:
		return "plain"
	case ModeSplice:
		return "splice"
	case ModeStrip:
		return "strip"
	default:
		return fmt.Sprintf("Mode(%d)", int(m))
	}
}

// MarshalText prints a Mode for JSON.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// SlotMessageSink takes the slot messages that were stripped. Deliver is
// called from the goroutine that forwards WAL, one for each session: it must not
// block. The message belongs to the sink.
type SlotMessageSink interface {
	Deliver(*protocol.SlotMessage)
}

// ReportSource holds the helper's newest report. Report returns it, nil when
// there is none yet, and a channel that is closed when there is a newer one.
// The report must not be changed afterwards.
type ReportSource interface {
	Report() (*protocol.HelperReport, <-chan struct{})
}

// Recorder is told every byte that goes over the downstream connection of each
// session. It is called from the goroutines that forward, which wait for it.
type Recorder interface {
	Opened(session uint64, downstream, upstream string)
	// Record takes bytes of one direction, in the order of the wire. b is not to be
	// kept or changed.
	Record(session uint64, dir Direction, b []byte)
	Closed(session uint64)
}

// Config says what a Relay is to do. The zero value of every duration is a
// default that its comment names.
type Config struct {
	// Listen are addresses as ListenAddress reads them. Port 0 takes a free one.
	Listen []string

	// Listeners are served too, and closed by Run.
	Listeners []net.Listener

	// Upstream is a libpq conninfo, keyword/value or URI. Its hosts, ports, ssl*,
	// connect_timeout, keepalives* and tcp_user_timeout are used: user, password
	// and database are the downstream's own. Several hosts are tried in order, a
	// host that begins with a slash is a directory of Unix sockets.
	Upstream string

	Mode Mode

	// Slots is where ModeSplice has its messages from. nil: nothing is spliced,
	// and the opt-in marker is still taken out.
	Slots *SlotSource

	// Near is the slot source whose server is the first of several upstream hosts to
	// be tried. nil means Slots, or HoldBack's.
	Near *SlotSource

	// Sink takes what ModeStrip stripped. nil: it is thrown away.
	Sink SlotMessageSink

	// Reports is what ModeStrip sends back. nil: nothing.
	Reports ReportSource

	// HoldBack says behind which standbys logical streams are held back. nil: behind
	// none.
	HoldBack *HoldBack

	// TLS is what the relay ends the downstream's TLS with. nil: it does not.
	TLS *ServerTLS

	// RefuseTLS answers SSLRequest and GSSENCRequest with 'N' in the upstream's
	// place. Otherwise they are passed on, and a session that the upstream
	// agrees to encrypt is opaque: nothing is spliced or stripped there.
	RefuseTLS bool

	// HandshakeTimeout bounds the time from accept to a whole startup packet.
	// 0 means 60 s, the default of authentication_timeout.
	HandshakeTimeout time.Duration

	// ConnectTimeout bounds the dial of one upstream host. 0 means conninfo's
	// connect_timeout, and 10 s where that is not set either.
	ConnectTimeout time.Duration

	// AnswerTimeout bounds the time from the startup packet to the upstream's first
	// word. 0 means conninfo's connect_timeout, and HandshakeTimeout where that is
	// not set.
	AnswerTimeout time.Duration

	// DrainTimeout bounds how long a session lives on after one of its
	// connections has ended. 0 means 10 s.
	DrainTimeout time.Duration

	// ReportInterval is how often ModeStrip sends an unchanged report again.
	// 0 means 3 s.
	ReportInterval time.Duration

	// Recorder is told what goes over the wire. nil: nobody.
	Recorder Recorder

	// Logger gets one line per session and per change of state. The zero value
	// logs nothing.
	Logger zerolog.Logger

	// Metrics is where the relay's metrics are registered. nil: nowhere.
	Metrics prometheus.Registerer
}

const defaultHandshakeTimeout = 60 * time.Second // authentication_timeout

// withDefaults returns the configuration with its zero values filled in, and
// all that is wrong with it.
func (c Config) withDefaults() (Config, upstreamAddrs, error) {
	var errs []error
	if len(c.Listen)+len(c.Listeners) == 0 {
		errs = append(errs, errors.New("no listen address"))
	}
	for _, a := range c.Listen {
		if _, _, err := ListenAddress(a); err != nil {
			errs = append(errs, err)
		}
	}
	addrs, err := parseUpstream(c.Upstream)
	if err != nil {
		errs = append(errs, fmt.Errorf("upstream: %w", err))
	}
	if c.TLS != nil && c.RefuseTLS {
		errs = append(errs, errors.New("TLS cannot be refused where there is a certificate for it"))
	}
	if c.Mode < ModePlain || c.Mode > ModeStrip {
		errs = append(errs, fmt.Errorf("unknown mode %d", int(c.Mode)))
	}
	if c.Slots != nil && c.Mode != ModeSplice {
		errs = append(errs, fmt.Errorf("mode %s has no use for a slot source", c.Mode))
	}
	if (c.Sink != nil || c.Reports != nil) && c.Mode != ModeStrip {
		errs = append(errs, fmt.Errorf("mode %s has no use for a slot message sink or a report source", c.Mode))
	}
	if c.Near == nil {
		c.Near = c.Slots
	}
	if c.Near == nil && c.HoldBack != nil {
		c.Near = c.HoldBack.Source
	}
	if c.HoldBack != nil {
		errs = append(errs, c.HoldBack.check(&c)...)
	}
	errs = append(errs, fillDurations(
		duration{"handshake timeout", &c.HandshakeTimeout, defaultHandshakeTimeout},
		duration{"answer timeout", &c.AnswerTimeout, cmp.Or(addrs.answerTimeout, c.HandshakeTimeout, defaultHandshakeTimeout)},
		duration{"connect timeout", &c.ConnectTimeout, addrs.connectTimeout},
		duration{"drain timeout", &c.DrainTimeout, 10 * time.Second},
		duration{"report interval", &c.ReportInterval, 3 * time.Second},
	)...)
	return c, addrs, errors.Join(errs...)
}
