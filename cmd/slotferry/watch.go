package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/internal/table"
)

// watchStatus prints until ctx ends, and then says what was last true. On a
// terminal each round takes the place of the one before.
func watchStatus(ctx context.Context, c *cli.Context, client *statusdoc.Client, urls []string, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	show := printAnswers
	if isTerminal(c.App.Writer) && !c.Bool("json") {
		screen := screen{out: c.App.Writer, every: every}
		show = screen.show
		defer screen.leave()
	}
	var last error
	for {
		answers := ask(ctx, client, urls)
		if ctx.Err() != nil {
			return last
		}
		last = verdictOf(answers)
		if err := show(c, answers); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return last
		case <-tick.C:
		}
	}
}

// What a terminal does with these (ECMA-48, xterm): nothing flickers, since what
// stays the same is written over itself.
const (
	home      = "\x1b[H"
	clearLine = "\x1b[K"
	clearRest = "\x1b[J"
	noWrap    = "\x1b[?7l"
	wrapAgain = "\x1b[?7h"
)

// screen is a terminal that is written over in each round.
type screen struct {
	out   io.Writer
	every time.Duration
	began bool
}

func (s *screen) show(_ *cli.Context, answers []answer) error {
	v := statusView{color: colors(s.out)}
	v.line("%s, every %v; Ctrl-C ends it", time.Now().Format(time.TimeOnly), s.every)
	v.line("")
	for _, a := range answers {
		if a.err != nil {
			v.line("%s: %s", table.Paint("NO ANSWER", table.Bad, v.color), table.Printable(oneLine(a.err.Error())))
		}
	}
	v.all(answers)
	head := noWrap + home
	if !s.began {
		s.began, head = true, noWrap+home+clearRest
	}
	lines := fit(strings.Split(strings.TrimSuffix(v.out.String(), "\n"), "\n"), s.height())
	_, err := io.WriteString(s.out, head+strings.Join(lines, clearLine+"\n")+clearLine+"\n"+clearRest)
	return err
}

// fit leaves out what the window has no room for, and says so.
func fit(lines []string, height int) []string {
	if height < 3 || len(lines) < height {
		return lines
	}
	room := height - 2 // one for the notice, one for the cursor
	return append(lines[:room:room], fmt.Sprintf("... %d more lines: make the window higher, or ask once, without --watch", len(lines)-room))
}

// height is that of the window; 0 when it is not known.
func (s *screen) height() int {
	f, ok := s.out.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Row)
}

func (s *screen) leave() { _, _ = io.WriteString(s.out, wrapAgain) } // the last round stays
