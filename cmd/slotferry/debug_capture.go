package main

import (
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/internal/capture"
	"github.com/slotferry/slotferry/protocol/trace"
	"github.com/slotferry/slotferry/relay"
)

func debugCaptureCommand() *cli.Command {
	return &cli.Command{
		Name:  "capture",
		Usage: "recording proxy: what goes over connections, to a file",
		Description: `Accepts connections and forwards each to --upstream, byte for byte, as the relay
does but with nothing put in. Both directions go to --out, with the time of each
piece, for "slotferry debug inspect" and "slotferry debug replay". A file that
is there already is appended to. Passwords, SCRAM proofs and cancel keys are
masked.

  slotferry debug capture --listen 127.0.0.1:6432 --upstream 'host=primary' \
      --out session.capture

What the two sides encrypt between them cannot be read later: with --tls-cert
and --tls-key the proxy ends the encryption and begins another; --refuse-tls
makes them talk in the clear, if both allow it. SIGTERM ends it.`,
		Flags: join([]cli.Flag{
			texts("listen", "accept connections on `ADDRESS`, HOST:PORT or the directory of a Unix socket, /DIR:PORT; repeatable"),
			text("upstream", "", "`CONNINFO` of the server to forward to; only hosts, ports and timeouts are used"),
			text("out", "", "write to `FILE`"),
			text("max-size", "1GiB", "begin another file when one has reached `SIZE`: FILE is renamed to FILE.1, FILE.1 to FILE.2, and so on"),
			text("max-files", "16", "keep at most `N` files; older ones are removed"),
			yes("show-secrets", "write passwords and keys as they are"),
		}, proxyFlags(), processFlags()),
		Action: runDebugCapture,
	}
}

func runDebugCapture(c *cli.Context) (err error) {
	s := newSettings(c)
	listen, upstream := s.listen("listen", true), s.conninfo("upstream", true)
	cfg := capture.Config{
		Path: c.String("out"), MaxSize: int64(s.size("max-size", 64<<10)), MaxFiles: s.number("max-files", 1, 1e6),
		ShowSecrets: c.Bool("show-secrets"),
	}
	if cfg.Path == "" {
		s.problems = append(s.problems, withHint(errors.New("--out is needed"), "Name the file to write to."))
	}
	p, err := newProcess(s, nil)
	if err != nil {
		return err
	}
	writer, err := capture.Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, writer.Close()) }()
	p.relay, err = relay.New(relay.Config{
		Listen: listen, Upstream: upstream, Mode: relay.ModePlain, RefuseTLS: c.Bool("refuse-tls"), TLS: p.tls, Listeners: p.inherited,
		Recorder: recorder{writer}, Logger: p.log.With().Str("part", "relay").Logger(), Metrics: p.metrics,
	})
	if err != nil {
		return usageError(err)
	}
	p.add("capture", writer.Run)
	p.add("relay", p.relay.Run)
	return p.run(c.Context)
}

// recorder joins a relay to a capture.
type recorder struct{ *capture.Writer }

// Record records bytes of one direction.
func (r recorder) Record(session uint64, dir relay.Direction, b []byte) {
	to := trace.Downstream
	if dir == relay.Upstream {
		to = trace.Upstream
	}
	r.Writer.Record(session, to, b)
}
