package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/relay"
)

func relayCommand() *cli.Command {
	return &cli.Command{
		Name:  "relay",
		Usage: "proxy in front of the primary that sends slot state along with WAL",
		Description: `Put it on a replication connection: standbys connect to --listen, and the relay
connects to --upstream for each. Logging in, WAL and feedback go through
unchanged. Slot state is put into the streams of helpers, who ask for it, and
of nobody else: pg_basebackup, pg_receivewal, psql and standbys without a
helper get PostgreSQL's bytes and no others.

  slotferry relay --listen :6432 \
      --upstream 'host=primary user=slotferry dbname=postgres'

The role in --upstream (or --slots) reads pg_replication_slots: any login role
may. Grant it EXECUTE on pg_log_standby_snapshot(), or new slots wait up to 15 s
for the primary's own record. Next: "slotferry helper" beside each standby.`,
		Flags: join([]cli.Flag{
			texts("listen", "accept replication connections on `ADDRESS`, HOST:PORT or the directory of a Unix socket, /DIR:PORT; repeatable"),
			text("upstream", "", "`CONNINFO` of the server to relay to; several hosts are tried in order. User, password and database in it are for reading slots: each session through the relay brings its own"),
			text("slots", "", "`CONNINFO` to read slots with. Default: that of --upstream"),
			text("helper-url", "", "`URL` of the helper of the upstream, if that is a standby itself (a cascade): its slots are ready here only when they are there"),
		}, clientFlags("helper-url"), slotSourceFlags(), holdBackFlags(), proxyFlags(), processFlags(), configFlags()),
		Action: runRelay,
	}
}

// relaySettings are those of relay alone.
type relaySettings struct {
	listen   []string
	upstream string
	source   relay.SlotSourceConfig
	hold     *relay.HoldBack // nil: nothing is held back
}

func (s *settings) relay() relaySettings {
	r := relaySettings{listen: s.listen("listen", true), upstream: s.conninfo("upstream", true)}
	r.source = s.slotSource(r.upstream)
	r.hold = s.holdBack(&r.source)
	return r
}

func runRelay(c *cli.Context) error {
	s := newSettings(c)
	cfg := s.relay()
	p, err := newProcess(s, func(again *settings) { again.relay() })
	if err != nil {
		return err
	}
	source := cfg.source
	source.Logger = p.log.With().Str("part", "slot source").Logger()
	if p.source, err = relay.NewSlotSource(source); err != nil {
		return usageError(err)
	}
	if cfg.hold != nil {
		cfg.hold.Source = p.source
	}
	p.relay, err = relay.New(relay.Config{
		Listen: cfg.listen, Upstream: cfg.upstream, Mode: relay.ModeSplice, Slots: p.source, HoldBack: cfg.hold, RefuseTLS: c.Bool("refuse-tls"), TLS: p.tls, Listeners: p.inherited,
		Logger: p.log.With().Str("part", "relay").Logger(), Metrics: p.metrics,
	})
	if err != nil {
		return usageError(err)
	}
	p.add("slot source", p.source.Run)
	p.add("relay", p.relay.Run)
	return p.run(c.Context)
}

// slotSource reads the flags of slotSourceFlags, and where to read slots: without
// --slots from where WAL comes from.
func (s *settings) slotSource(upstream string) relay.SlotSourceConfig {
	cfg := relay.SlotSourceConfig{
		Conninfo:     s.conninfo("slots", false),
		Heartbeat:    s.duration("interval", 100*time.Millisecond, 10*time.Second),
		PollInterval: s.duration("poll-interval", 10*time.Millisecond, 10*time.Second),
		SlotFilters:  s.slotFilters(),
	}
	if cfg.Conninfo == "" {
		cfg.Conninfo = upstream
	}
	if text := s.c.String("helper-url"); text != "" {
		cfg.Readiness = upstreamHelper{s.client("helper-url"), s.url("helper-url", text)}.readiness
	}
	if len(s.problems) == 0 && cfg.PollInterval > cfg.Heartbeat {
		s.problem("poll-interval", "", fmt.Errorf("%v is longer than --interval, %v", cfg.PollInterval, cfg.Heartbeat))
	}
	return cfg
}

func (s *settings) slotFilters() relay.SlotFilters {
	return relay.SlotFilters{
		Include: s.globs("slot"), Exclude: s.globs("exclude-slot"), Databases: s.globs("database"),
		IncludeTableSync: s.c.Bool("include-table-sync"),
	}
}
