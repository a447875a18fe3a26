package relay

import (
	"context"
	"errors"
	"net"
)

// Relay accepts replication connections and forwards each to the upstream.
type Relay struct {
	cfg   Config
	addrs upstreamAddrs
}

// New checks the configuration. Its error names everything that is wrong.
func New(cfg Config) (*Relay, error) {
	cfg, addrs, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Relay{cfg: cfg, addrs: addrs}, nil
}

// Listen opens the listen addresses. Run does it when nobody did before.
func (r *Relay) Listen() error { return errors.New("not there yet") }

// Addrs returns the addresses that Listen opened.
func (r *Relay) Addrs() []net.Addr { return nil }

// Run serves until ctx ends. It then stops accepting, ends every session with
// a sentence to the downstream, and returns when all goroutines have. Its
// error is nil when ctx ended it.
func (r *Relay) Run(ctx context.Context) error { return errors.New("not there yet") }

// Status returns what is known now. It may be called at any time.
func (r *Relay) Status() Status { return Status{} }
