package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/conninfo"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/internal/statusserver"
	"github.com/slotferry/slotferry/internal/version"
	"github.com/slotferry/slotferry/relay"
)

// process is a command that keeps running: its parts, and what it says of them.
type process struct {
	command  string
	started  time.Time
	host     string // or --node-name
	log      zerolog.Logger
	level    *logLevel
	redactor *conninfo.Redactor
	upstream string // its addresses, for people
	standby  string
	metrics  *prometheus.Registry

	relay  *relay.Relay      // nil: none
	source *relay.SlotSource // nil: none
	helper *decoder.Helper   // nil: none
	http   *statusserver.Server
	access *statusserver.Access // to http; nil: everybody has it

	tls       *relay.ServerTLS // nil: none
	inherited []net.Listener   // from the service manager

	services []service

	settings *settings       // in force; those that cannot be reloaded are as they were at the start
	read     func(*settings) // reads every setting of the command; nil: it has no file
}

// service is one part of a process.
type service struct {
	name string
	run  func(context.Context) error
}

// commonSettings are those of every command that keeps running.
type commonSettings struct {
	http   string               // address of the status server, "": none
	access *statusserver.Access // to it; nil: everybody has it
	level  zerolog.Level
	tls    *relay.ServerTLS // nil: none
}

func (s *settings) common() commonSettings {
	c := commonSettings{http: s.httpAddress(), access: s.httpAccess(), level: s.logLevel()}
	if s.has("tls-cert") {
		c.tls = s.tls()
	}
	return c
}

// newProcess reads the flags that all have in common. It is called when all
// settings have been read; read does that once more, for a reload.
func newProcess(s *settings, read func(*settings)) (*process, error) {
	common := s.common()
	if s.dryRun { // the address is that of the process that runs
		common.http = ""
	}
	var inherited []net.Listener
	if s.has("tls-cert") { // the command may listen for replication connections
		inherited = s.inherit()
	}
	if s.look {
		if err := printConfig(s); err != nil {
			return nil, err
		}
	}
	if err := s.err(); err != nil || s.look {
		s.warnOfStrays() // the log, which has them else, is not there yet
		if err != nil {
			return nil, err
		}
	}
	if s.look {
		return nil, errPrinted
	}
	host, err := s.host()
	if err != nil {
		return nil, err
	}
	p := &process{
		command: s.c.Command.Name, started: time.Now(), host: host,
		redactor: conninfo.NewRedactor(s.conninfos...), metrics: prometheus.NewRegistry(),
		tls: common.tls, inherited: inherited, level: newLogLevel(common.level), settings: s, read: read,
		access: common.access, upstream: conninfo.Addresses(s.c.String("upstream")),
	}
	p.log = newLogger(s.c.App.ErrWriter, p.level, p.redactor).With().Str("command", p.command).Logger()
	p.metrics.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		statusserver.NewCollector(p.document),
	)
	p.warn(s, common.http)
	if common.http != "" {
		p.http, err = statusserver.Listen(statusserver.Config{
			Listen: common.http, Document: p.document, Metrics: p.metrics, Access: common.access,
		})
		if err != nil {
			return nil, err
		}
		p.add("status server", p.http.Run)
	}
	return p, nil
}

// warn says what works, and should not be left so.
func (p *process) warn(s *settings, http string) {
	if s.secretInArgs {
		p.log.Warn().Str("hint", "Use a password file (~/.pgpass, or passfile in the conninfo).").
			Msg("a password was given on the command line, where it could be seen for a moment")
	}
	for _, v := range strayVariables(os.Environ()) {
		p.log.Warn().Str("variable", v.variable).Str("hint", v.hint).Msg("a variable of the environment is ignored: no flag has that name")
	}
	host, _, err := net.SplitHostPort(http)
	if ip := net.ParseIP(host); err != nil || host == "localhost" || ip != nil && ip.IsLoopback() {
		return
	}
	if !p.access.Token() {
		p.log.Warn().Str("http", http).
			Str("hint", "It shows names and positions of slots to who can reach it. Give it --http-token-file, or a loopback address.").
			Msg("the status server needs no token and does not listen on loopback")
	}
	if !p.access.TLS() {
		p.log.Warn().Str("http", http).Str("hint", "Give it --http-tls-cert and --http-tls-key, or a loopback address.").
			Msg("the status server speaks plain text and does not listen on loopback")
	}
}

func (p *process) add(name string, run func(context.Context) error) {
	p.services = append(p.services, service{name, run})
}

// document describes the process at this moment.
func (p *process) document() statusdoc.Document {
	d := statusdoc.Document{
		Version: version.String(), Command: p.command, Host: p.host, Time: time.Now().UTC(), Started: p.started.UTC(),
		Upstream: p.upstream, Standby: p.standby,
	}
	if p.relay != nil {
		s := p.relay.Status()
		d.Relay = &s
	}
	if p.source != nil && d.Source() == nil {
		source := p.source.Status()
		d.SlotSource = &source
	}
	if p.helper != nil {
		d.Helper = p.helper.Status()
	}
	d.Redact(p.redactor.Redact)
	d.Judge()
	return d
}

// run runs all parts until a signal ends them, or one of them fails.
func (p *process) run(ctx context.Context) error {
	ctx, stop := p.untilSignal(ctx)
	defer stop()
	if p.relay != nil {
		if err := p.relay.Listen(); err != nil {
			if p.http != nil {
				_ = p.http.Close() // nothing was served on it
			}
			return err
		}
	}
	p.log.Info().Str("version", version.String()).Strs("listen", p.listens()).Str("http", p.httpAddr()).Msg("started")
	p.notify("READY=1")
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range p.services {
		group.Go(func() error {
			err := s.run(ctx)
			if err == nil && ctx.Err() == nil {
				err = errors.New("ended by itself")
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			return nil
		})
	}
	err := group.Wait()
	p.log.Info().Msg("stopped")
	return err
}

func (p *process) listens() []string {
	if p.relay == nil {
		return nil
	}
	var list []string
	for _, a := range p.relay.Addrs() {
		list = append(list, a.String())
	}
	return list
}

func (p *process) httpAddr() string {
	if p.http == nil {
		return ""
	}
	return p.http.Addr().String()
}
