package main

import (
	"context"
	"encoding/json"
	"errors"
	"os/signal"
	"sync"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/internal/conninfo"
	"github.com/slotferry/slotferry/internal/preflight"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name:  "check",
		Usage: "preconditions on both servers, and readiness",
		Description: `Looks at the settings, roles and slots of both servers, changes nothing, and
prints a line for each thing: what it is, what it should be, how to change it.

  slotferry check --upstream 'host=primary user=slotferry dbname=postgres' \
      --standby 'host=standby user=slotferry dbname=postgres' --url standby:8432

Give the roles that relay and helper use: their privileges are checked. With
--url of a running helper or solo it is also the gate before a switchover: exit
status 0 says that every slot is safe to fail over to. A relay alone cannot say
that: with --url, and no helper among those that answer, it fails.

Exit status: 0 when nothing failed (warnings do not count), 1 when something
did, 2 when nobody was reached. With --nagios it is a plugin's: 1 WARNING when
there is nothing but warnings, 2 CRITICAL, 3 UNKNOWN when it could not look.`,
		Flags: join([]cli.Flag{
			text("upstream", "", "`CONNINFO` of the primary (or of the standby that the standby streams from)"),
			text("standby", "", "`CONNINFO` of the standby"),
			texts("url", "`URL` of a running helper or relay, or HOST:PORT; repeatable"),
			yes("json", "print one JSON document instead of a table"),
			yes("nagios", "print one line and figures, and end as a Nagios plugin does: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN"),
		}, clientFlags("url")),
		Action: runCheck,
	}
}

// checkKind names the document of check --json and its version.
const checkKind = "slotferry.check/1"

// checkDocument is what check --json prints: a contract, as the status document
// is.
type checkDocument struct {
	Kind     string              `json:"kind"`
	OK       bool                `json:"ok"` // nothing failed
	Findings []preflight.Finding `json:"findings"`
	Slots    statusdoc.Counts    `json:"slots"`   // of all --url together
	Helpers  int                 `json:"helpers"` // that answered: where it is 0 nothing is said of slots

	lag     uint64  // most bytes of any slot
	lagTime float64 // most seconds of any slot
}

// inquiry is what there is to look at, and what came out.
type inquiry struct {
	upstreamConninfo, standbyConninfo string
	client                            *statusdoc.Client
	urls                              []string

	upstream, standby       *preflight.Server
	upstreamErr, standbyErr error
	answers                 []answer
}

func runCheck(c *cli.Context) error {
	q, doc, err := check(c)
	switch {
	case err != nil && c.Bool("nagios"):
		return asNagios(c, err)
	case err != nil:
		return err
	case c.Bool("nagios"):
		return printNagios(c.App.Writer, doc)
	}
	if err := printCheck(c, doc); err != nil {
		return err
	}
	switch {
	case !q.reached():
		return errNoneReached
	case !doc.OK:
		return errNotReady
	}
	return nil
}

// check looks at all that was asked for. An error means that it could not.
func check(c *cli.Context) (*inquiry, *checkDocument, error) {
	s := newSettings(c)
	if c.Bool("nagios") && c.Bool("json") {
		s.problems = append(s.problems, errors.New("--nagios and --json exclude each other"))
	}
	q := inquiry{
		upstreamConninfo: s.conninfo("upstream", false), standbyConninfo: s.conninfo("standby", false),
		client: s.client("url"), urls: s.urls(false),
	}
	if q.upstreamConninfo == "" && q.standbyConninfo == "" && len(q.urls) == 0 && len(s.problems) == 0 {
		s.problems = append(s.problems, withHint(errors.New("nothing to check"), "Give --upstream, --standby, --url, or all three."))
	}
	if err := s.err(); err != nil {
		return nil, nil, err
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	q.ask(ctx)
	if err := errors.Join(q.upstreamErr, q.standbyErr); err != nil {
		return nil, nil, err
	}
	return &q, q.document(conninfo.NewRedactor(s.conninfos...)), nil
}

// ask looks at everything at the same time.
func (q *inquiry) ask(ctx context.Context) {
	var wg sync.WaitGroup
	if q.upstreamConninfo != "" {
		wg.Go(func() { q.upstream, q.upstreamErr = preflight.Read(ctx, q.upstreamConninfo, preflight.Upstream) })
	}
	if q.standbyConninfo != "" {
		wg.Go(func() { q.standby, q.standbyErr = preflight.Read(ctx, q.standbyConninfo, preflight.Standby) })
	}
	wg.Go(func() { q.answers = ask(ctx, q.client, q.urls) })
	wg.Wait()
}

// reached reports whether anybody answered, be it with a refusal.
func (q *inquiry) reached() bool {
	for _, s := range []*preflight.Server{q.upstream, q.standby} {
		if s != nil && (s.ConnectError == "" || s.Reached) {
			return true
		}
	}
	for _, a := range q.answers {
		var unreachable *statusdoc.UnreachableError
		if !errors.As(a.err, &unreachable) {
			return true
		}
	}
	return false
}

func (q *inquiry) document(redactor *conninfo.Redactor) *checkDocument {
	doc := &checkDocument{Kind: checkKind, OK: true, Findings: preflight.Check(q.upstream, q.standby)}
	var documents []*statusdoc.Document
	for _, a := range q.answers {
		if a.err != nil {
			doc.Findings = append(doc.Findings, preflight.CheckURLFailed(a.URL, a.err)...)
			continue
		}
		doc.Findings = append(doc.Findings, preflight.CheckHelper(a.Status)...)
		doc.Findings = append(doc.Findings, preflight.CheckHoldBack(a.Status.Relay, a.Status.Time)...)
		doc.count(a.Status)
		documents = append(documents, a.Status)
	}
	doc.Findings = append(doc.Findings, preflight.CheckGate(documents, q.upstream, q.standby)...)
	for i := range doc.Findings {
		f := &doc.Findings[i]
		f.Value = oneLine(redactor.Redact(f.Value))
		doc.OK = doc.OK && f.Level != preflight.Fail
	}
	return doc
}

// count adds the slots of a helper.
func (doc *checkDocument) count(d *statusdoc.Document) {
	if d.Helper == nil {
		return
	}
	doc.Helpers++
	doc.Slots = doc.Slots.Plus(d.CountSlots())
	for i := range d.Helper.Slots {
		s := &d.Helper.Slots[i]
		doc.lag, doc.lagTime = max(doc.lag, s.Lag), max(doc.lagTime, s.LagTime)
	}
}

func printCheck(c *cli.Context, doc *checkDocument) error {
	if c.Bool("json") {
		encoder := json.NewEncoder(c.App.Writer)
		encoder.SetIndent("", "  ")
		return encoder.Encode(doc)
	}
	_, err := c.App.Writer.Write([]byte(checkText(doc, colors(c.App.Writer))))
	return err
}
