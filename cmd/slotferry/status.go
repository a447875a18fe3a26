package main

import (
	"context"
	"encoding/json"
	"errors"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/internal/statusdoc"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "table of slots: upstream, standby, lag, state, reason",
		Description: `Asks running slotferry processes, by the addresses given to their --http.

  slotferry status --url 127.0.0.1:8432
  slotferry status --url standby1:8432 --url standby2:8432 --watch

A slot is ready when it is safe to fail over to; pending when it will be without
hands; blocked when somebody must do something. The hints below the table say
what clears each reason.

Exit status: 0 when all that was asked is ready, 1 when something is not, 2 when
nobody answered.`,
		Flags: join([]cli.Flag{
			texts("url", "`URL` of a process, or HOST:PORT; repeatable"),
			yes("json", "print a JSON array with a status document for each URL"),
			yes("watch", "ask again and again, until interrupted"),
			text("every", "2s", "with --watch, ask every `DURATION`"),
		}, clientFlags("url")),
		Action: runStatus,
	}
}

// answer is what one URL gave, and an element of the array of --json.
type answer struct {
	URL    string              `json:"url"`
	Error  string              `json:"error,omitempty"`
	Status *statusdoc.Document `json:"status"` // null: none
	err    error
}

func (s *settings) urls(required bool) []string {
	var urls []string
	for _, text := range s.c.StringSlice("url") {
		urls = append(urls, s.url("url", text))
	}
	if len(urls) == 0 && required {
		s.problems = append(s.problems, withHint(errors.New("--url is needed"),
			"Give the address that a helper or a relay was given in --http: --url 127.0.0.1:8432."))
	}
	return urls
}

func runStatus(c *cli.Context) error {
	s := newSettings(c)
	client, urls, every := s.client("url"), s.urls(true), s.duration("every", 100*time.Millisecond, time.Hour)
	if err := s.err(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if !c.Bool("watch") {
		answers := ask(ctx, client, urls)
		if err := printAnswers(c, answers); err != nil {
			return err
		}
		return verdictOf(answers)
	}
	return watchStatus(ctx, c, client, urls, every)
}

// ask reads all documents at once, and returns them in the order of the URLs.
func ask(ctx context.Context, client *statusdoc.Client, urls []string) []answer {
	answers := make([]answer, len(urls))
	var wg sync.WaitGroup
	for i, url := range urls {
		wg.Go(func() {
			d, err := client.Read(ctx, url)
			answers[i] = answer{URL: url, Status: d, err: err}
			if err != nil {
				answers[i].Error = err.Error()
			}
		})
	}
	wg.Wait()
	return answers
}

// verdictOf turns answers into the exit status.
func verdictOf(answers []answer) error {
	reached, ready := 0, 0
	for _, a := range answers {
		var unreachable *statusdoc.UnreachableError
		if !errors.As(a.err, &unreachable) {
			reached++
		}
		if a.Status != nil && a.Status.Ready {
			ready++
		}
	}
	switch {
	case reached == 0:
		return errNoneReached
	case ready < len(answers):
		return errNotReady
	}
	return nil
}

func printAnswers(c *cli.Context, answers []answer) error {
	for _, a := range answers {
		if a.err != nil {
			report(c.App.ErrWriter, a.err)
		}
	}
	if c.Bool("json") {
		encoder := json.NewEncoder(c.App.Writer)
		if !c.Bool("watch") { // one line a round there
			encoder.SetIndent("", "  ")
		}
		return encoder.Encode(answers)
	}
	v := statusView{color: colors(c.App.Writer)}
	v.all(answers)
	_, err := c.App.Writer.Write([]byte(v.out.String()))
	return err
}
