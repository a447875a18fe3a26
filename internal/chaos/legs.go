package chaos

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/slotferry/slotferry/internal/faultproxy"
	"github.com/slotferry/slotferry/internal/rig"
)

// legs are the fault proxies of a round: one for each leg of each node, and one
// that the subscriptions find the primary by.
type legs struct {
	mu         sync.Mutex
	pair       map[string]*faultproxy.Proxy
	subscriber *faultproxy.Proxy
}

func newLegs() (*legs, error) {
	nowhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer nowhere.Close() // nobody listens there until there is a primary
	p, err := faultproxy.New(nowhere.Addr().String())
	if err != nil {
		return nil, err
	}
	return &legs{pair: map[string]*faultproxy.Proxy{}, subscriber: p}, nil
}

// via puts a proxy into a leg of the pair.
func (l *legs) via(leg rig.Leg, node string, port int) (int, error) {
	p, err := faultproxy.New("127.0.0.1:" + strconv.Itoa(port))
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pair[string(leg)+" "+node] = p
	return p.Port(), nil
}

// of returns the proxy in a leg when standby is the standby of primary.
func (l *legs) of(leg string, mode rig.Mode, primary, standby *rig.Node) (*faultproxy.Proxy, error) {
	node := standby.Name
	if rig.Leg(leg) == rig.LegUpstream && mode != rig.Solo {
		node = primary.Name // the relay stands beside the server it leads to
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if rig.Leg(leg) == LegSubscriber {
		return l.subscriber, nil
	}
	p := l.pair[leg+" "+node]
	if p == nil {
		return nil, fmt.Errorf("no leg %q beside node %s in mode %s", leg, node, mode)
	}
	return p, nil
}

func (l *legs) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	errs := []error{l.subscriber.Close()}
	for _, p := range l.pair {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
