package main

import (
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/conninfo"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

func helperCommand() *cli.Command {
	return &cli.Command{
		Name:  "helper",
		Usage: "keep the primary's logical slots on a standby",
		Description: `Runs beside a standby. Two ways to get at the slot state of a relay:

With --listen, the standby's walreceiver connects here and the helper connects
to the relay: slot state travels with the WAL, and the standby sees pure WAL.

  slotferry helper --listen 127.0.0.1:6433 --upstream 'host=relay port=6432' \
      --standby 'host=/run/postgresql user=slotferry dbname=postgres' \
      --state-dir DIRECTORY

Without --listen, the standby connects to the relay itself, and the helper has a
connection of its own, for which --upstream needs a role with REPLICATION.

A slot appears on the standby under its own name when it is safe to fail over
to, not before: "slotferry status" says which are, and why others are not.`,
		Flags: join([]cli.Flag{
			texts("listen", "accept the walreceiver's connection on `ADDRESS`, HOST:PORT or the directory of a Unix socket, /DIR:PORT; repeatable. Default: off, the standby streams from the relay itself"),
			text("upstream", "", "`CONNINFO` of the relay; several hosts are tried in order"),
			yes("drop-all", "drop every slot that a helper with this --state-dir and --node-name has made on the standby, and end: to take slotferry out of service. --upstream is not needed"),
		}, standbyFlags(), onceFlags(), proxyFlags(), processFlags(), configFlags()),
		Action: runHelper,
	}
}

func runHelper(c *cli.Context) error {
	if c.Bool("drop-all") {
		return runDropAll(c)
	}
	s := newSettings(c)
	listen, upstream, helper := s.helperCommand()
	p, err := newProcess(s, func(again *settings) { again.helperCommand() })
	if err != nil {
		return err
	}
	if err := p.addHelper(helper); err != nil {
		return err
	}
	if len(listen)+len(p.inherited) == 0 {
		feed, err := decoder.NewFeed(decoder.FeedConfig{
			Upstream: upstream, Helper: p.helper, Logger: p.log.With().Str("part", "feed").Logger(),
		})
		if err != nil {
			return usageError(err)
		}
		if c.Bool("dry-run") {
			return printPlan(c, p.helper, feed.Run)
		}
		p.add("feed", feed.Run)
		return p.run(c.Context)
	}
	p.relay, err = relay.New(relay.Config{
		Listen: listen, Upstream: upstream, Mode: relay.ModeStrip, Sink: p.helper, Reports: p.helper,
		RefuseTLS: c.Bool("refuse-tls"), TLS: p.tls, Listeners: p.inherited, Logger: p.log.With().Str("part", "relay").Logger(), Metrics: p.metrics,
	})
	if err != nil {
		return usageError(err)
	}
	p.add("relay", p.relay.Run)
	p.add("upstream watch", upstreamWatch{relay: p.relay, helper: p.helper}.run)
	return p.run(c.Context)
}

// helperCommand reads the flags of helper.
func (s *settings) helperCommand() (listen []string, upstream string, cfg decoder.Config) {
	listen, upstream, cfg = s.listen("listen", false), s.conninfo("upstream", true), s.helper()
	if s.dryRun {
		listen = nil
	}
	return listen, upstream, cfg
}

// helper reads the flags of standbyFlags.
func (s *settings) helper() decoder.Config {
	cfg := decoder.Config{
		Standby: s.conninfo("standby", true), StateDir: s.stateDir(), MaxSessions: s.number("max-sessions", 1, 1000),
		Settings: decoder.DefaultSettings(), RestoreFailover: s.c.Bool("restore-failover"),
	}
	s.checkNodeName()
	cfg.Settings.AdvanceInterval = s.duration("advance-interval", 100*time.Millisecond, time.Hour)
	cfg.Settings.AnchorBudget = protocol.LSN(s.size("anchor-budget", 16<<20))
	cfg.Settings.RetainBudget = protocol.LSN(s.size("retain-budget", 16<<20))
	return cfg
}

func (p *process) addHelper(cfg decoder.Config) error {
	p.standby = conninfo.Addresses(cfg.Standby)
	cfg.Host, cfg.Logger = p.host, p.log.With().Str("part", "helper").Logger()
	var err error
	if p.helper, err = decoder.New(cfg); err != nil {
		return usageError(err)
	}
	p.add("helper", func(ctx context.Context) error { return stateDirHint(p.helper.Run(ctx)) })
	return nil
}

// stateDirHint says what to do about a state directory that is taken.
func stateDirHint(err error) error {
	if errors.Is(err, decoder.ErrStateDirInUse) {
		return withHint(err, "Stop the other helper, or give this one its own --state-dir.")
	}
	return err
}

// relayStatus is what upstreamWatch looks at, upstreamNews whom it tells.
type (
	relayStatus  interface{ Status() relay.Status }
	upstreamNews interface {
		NoRelay()
		UpstreamTrouble(code, text string)
		UpstreamSystem(id uint64)
	}
)

// upstreamWatch tells an inline helper why no slot messages come, such as that
// its upstream is a server and not a relay: without it the helper would only see
// that nothing arrives.
type upstreamWatch struct {
	relay  relayStatus
	helper upstreamNews
}

func (w upstreamWatch) run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			st := w.relay.Status()
			if st.NoRelay {
				w.helper.NoRelay()
			}
			code, text := "", ""
			if st.UpstreamError != nil {
				code, text = st.UpstreamError.Code, st.UpstreamError.Message
			}
			w.helper.UpstreamTrouble(code, text)
			w.helper.UpstreamSystem(st.SystemIdentifier)
		}
	}
}
