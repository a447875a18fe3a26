package main

import (
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

func soloCommand() *cli.Command {
	return &cli.Command{
		Name:  "solo",
		Usage: "relay and helper in one process beside a standby",
		Description: `For one standby whose machine may open an SQL connection to the primary. The
standby's walreceiver connects to --listen and its bytes go through unchanged;
slot state is read by SQL and never travels in the stream.

  slotferry solo --listen 127.0.0.1:6433 \
      --upstream 'host=primary user=slotferry dbname=postgres' \
      --standby 'host=/run/postgresql user=slotferry dbname=postgres' \
      --state-dir DIRECTORY

Without --listen the standby streams from the primary itself. Next: "slotferry
status" says which slots are safe to fail over to, and why others are not.`,
		Flags: join([]cli.Flag{
			texts("listen", "accept the walreceiver's connection on `ADDRESS`, HOST:PORT or the directory of a Unix socket, /DIR:PORT; repeatable. Default: off"),
			text("upstream", "", "`CONNINFO` of the primary; several hosts are tried in order. User, password and database in it are for reading slots"),
			text("slots", "", "`CONNINFO` to read slots with. Default: that of --upstream"),
			text("helper-url", "", "`URL` of the helper of the upstream, if that is a standby itself (a cascade): its slots are ready here only when they are there"),
		}, clientFlags("helper-url"), slotSourceFlags(), holdBackFlags(), standbyFlags(), onceFlags(), proxyFlags(), processFlags(), configFlags()),
		Action: runSolo,
	}
}

// soloSettings are those of solo alone.
type soloSettings struct {
	relaySettings
	helper decoder.Config
}

func (s *settings) solo() soloSettings {
	r := soloSettings{relaySettings: relaySettings{listen: s.listen("listen", false), upstream: s.conninfo("upstream", true)}}
	r.source, r.helper = s.slotSource(r.upstream), s.helper()
	r.hold = s.holdBack(&r.source)
	if r.hold != nil && len(r.listen) == 0 && inheritedFDs() == 0 {
		s.problem("hold-back", "Give --listen, and let subscribers connect there.", errors.New("no stream passes here"))
	}
	return r
}

func runSolo(c *cli.Context) error {
	s := newSettings(c)
	cfg := s.solo()
	p, err := newProcess(s, func(again *settings) { again.solo() })
	if err != nil {
		return err
	}
	source, helper := cfg.source, cfg.helper
	source.Logger = p.log.With().Str("part", "slot source").Logger()
	if p.source, err = relay.NewSlotSource(source); err != nil {
		return usageError(err)
	}
	if cfg.hold != nil {
		cfg.hold.Source = p.source
	}
	helper.RequestSnapshot = p.source.RequestSnapshot
	if err := p.addHelper(helper); err != nil {
		return err
	}
	slotState := delivery{from: p.source, to: p.helper}.run
	if c.Bool("dry-run") {
		return printPlan(c, p.helper, p.source.Run, slotState, sourceTrouble{source: p.source, helper: p.helper}.run)
	}
	p.add("slot source", p.source.Run)
	p.add("slot state", slotState)
	if len(cfg.listen)+len(p.inherited) > 0 {
		p.relay, err = relay.New(relay.Config{
			Listen: cfg.listen, Upstream: cfg.upstream, Mode: relay.ModePlain, Near: p.source, HoldBack: cfg.hold,
			RefuseTLS: c.Bool("refuse-tls"), TLS: p.tls, Listeners: p.inherited,
			Logger: p.log.With().Str("part", "relay").Logger(), Metrics: p.metrics,
		})
		if err != nil {
			return usageError(err)
		}
		p.add("relay", p.relay.Run)
	}
	return p.run(c.Context)
}

// slotMessages is where slot messages come from.
type slotMessages interface {
	Subscribe(f func(*protocol.SlotMessage)) (cancel func())
}

// delivery hands slot messages from the source to the helper in the same
// process.
type delivery struct {
	from slotMessages
	to   relay.SlotMessageSink
}

func (d delivery) run(ctx context.Context) error {
	cancel := d.from.Subscribe(d.to.Deliver)
	defer cancel()
	<-ctx.Done()
	return nil
}

// sourceTrouble tells a dry run why no slot messages come.
type sourceTrouble struct {
	source interface{ Status() relay.SlotSourceStatus }
	helper interface{ UpstreamTrouble(code, text string) }
}

func (w sourceTrouble) run(ctx context.Context) error {
	tick := time.NewTicker(time.Second / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		switch st := w.source.Status(); {
		case st.Refused:
			w.helper.UpstreamTrouble("28000", st.Error)
		default:
			w.helper.UpstreamTrouble("", st.Error)
		}
	}
}

var _ relay.SlotMessageSink = (*decoder.Helper)(nil)
