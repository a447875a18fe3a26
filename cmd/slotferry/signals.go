package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// untilSignal returns a context that SIGTERM or SIGINT ends. A second one ends
// the process at once, by the signal's own default. SIGHUP reads the configuration
// file, certificates and the token again.
func (p *process) untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	received := make(chan os.Signal, 4)
	signal.Notify(received, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	done := make(chan struct{})
	go p.watchSignals(ctx, cancel, received, done)
	return ctx, func() {
		cancel()
		signal.Stop(received)
		<-done
	}
}

func (p *process) watchSignals(ctx context.Context, cancel context.CancelFunc, received <-chan os.Signal, done chan<- struct{}) {
	defer close(done)
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-received:
			if s == syscall.SIGHUP {
				p.reload()
				continue
			}
			signal.Reset(syscall.SIGTERM, syscall.SIGINT)
			p.log.Info().Stringer("signal", s).Msg("ending sessions; a second signal ends the process at once")
			p.notify("STOPPING=1")
			cancel()
			return
		}
	}
}
