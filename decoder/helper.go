package decoder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/slotferry/slotferry/internal/contain"
	"github.com/slotferry/slotferry/protocol"
)

// Config is what a Helper needs. Zero values of optional fields are stated.
type Config struct {
	Standby     string         // conninfo of the standby
	StateDir    string         // where the ledger lives
	Host        string         // name of this machine, the same after a restart: part of the ledger's identity
	MaxSessions int            // sessions on the standby for steps, beside the two of the helper itself; 0: 4
	Settings    Settings       // zero: DefaultSettings
	Logger      zerolog.Logger // zero: silent

	RestoreFailover bool // at a promotion, set failover on slots whose upstream had it; 17 and newer

	// RequestSnapshot asks the upstream for a running-xacts record without waiting.
	// nil: the request travels in the helper's report.
	RequestSnapshot func()
}

// lookInterval is how often the standby is looked at when nothing has happened.
// When much has, there is a pause of minLookPause between two looks, and never a
// shorter one than the look before took.
const (
	lookInterval       = time.Second
	minLookPause       = 5 * time.Millisecond
	queueLookInterval  = 200 * time.Millisecond // while slots wait to be made or dropped
	lookTimeout        = 5 * time.Second
	checkpointInterval = 10 * time.Second
	defaultMaxSessions = 4
	stallTimeout       = 5 * time.Second // replay at rest while WAL waits, before our work is given up

	snapshotInterval = 200 * time.Millisecond // between two requests for a running-xacts record

	// What slots would read again at their next advance is cut down by a running-xacts
	// record on the upstream, some 60 bytes of WAL.
	rereadLimit    = protocol.LSN(16 << 20)
	rereadInterval = 5 * time.Second
)

// Helper keeps the standby's slots. One goroutine, Run's, owns its state; steps
// run in goroutines of their own and report back to it.
type Helper struct {
	cfg      Config
	log      zerolog.Logger
	sessions *sessions
	inbox    *inbox

	status atomic.Pointer[Status]
	report atomic.Pointer[report]
	panics contain.Panics // in steps, the anchor and the feed

	// Owned by Run's goroutine.
	monitor    *pgx.Conn // reads the standby's state, nothing else
	ledger     *Ledger
	node       NodeIdentity
	seen       *protocol.SlotMessage // the message the tracks know
	trouble    Reason                // why no message comes, as the last look knew it
	ready      map[string]bool       // slots that were ready at the last look
	lags       map[string]*lagClock  // by slot
	tracks     map[string]Track
	busy       map[string]stepRun
	outcomes   []outcome // of steps taken, not yet in the ledger
	queue      []Step    // recorded and waiting for a session; each look makes it anew
	anchor     Anchor
	anchorConn *anchorSession
	anchorStop context.CancelFunc
	protection Protection

	anchorPatience time.Duration // how long the anchor's next advance may take; 0: Settings.AdvanceDeadline

	standby     standbyFacts
	lastTLI     uint32    // the timeline last received
	lastLook    time.Time // when it ended
	lookTook    time.Duration
	historyNext time.Time
	stall       stallWatch
	checkpoint  time.Time
	snapshots   uint64
	lastAsk     time.Time
	said        map[string]string // what was logged last of each subject: one line a change
	promotion   *PromotionReport
	pending     []SlotStatusJSON // slots that were not here, or not the helper's, when last looked at as a standby
	promoteNext time.Time        // not before this after a promotion that is not finished
	notPromoted bool             // a primary, but not by a promotion of the standby

	promoteSince time.Time // the first try of a promotion that is not finished; else zero
	counts       map[stepOutcome]uint64

	results chan result
	workers sync.WaitGroup
}

// stepRun is a step under way.
type stepRun struct {
	step   Step
	start  time.Time
	cancel context.CancelFunc
}

// result is what a goroutine of a step, or of the anchor, reports back.
type result struct {
	step   Step
	lsn    protocol.LSN
	took   time.Duration
	err    error
	anchor AnchorStepKind
	name   string // of the anchor
	conn   *anchorSession
}

// report is the newest HelperReport and a channel that closes when it is not the
// newest any more.
type report struct {
	body    *protocol.HelperReport
	changed chan struct{}
}

// New checks the configuration and reports all that is wrong with it. It
// connects nowhere: a standby that is down is a state, not an error.
func New(cfg Config) (*Helper, error) {
	if cfg.MaxSessions == 0 {
		cfg.MaxSessions = defaultMaxSessions
	}
	if cfg.Settings == (Settings{}) {
		cfg.Settings = DefaultSettings()
	}
	var errs []error
	if cfg.StateDir == "" {
		errs = append(errs, errors.New("no state directory given: the helper must remember which slots are its own"))
	}
	if cfg.MaxSessions < 1 {
		errs = append(errs, fmt.Errorf("max sessions is %d: at least 1 is needed", cfg.MaxSessions))
	}
	sessions, err := newSessions(cfg.Standby, cfg.MaxSessions)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	h := &Helper{
		cfg: cfg, log: cfg.Logger, sessions: sessions, inbox: newInbox(),
		tracks: map[string]Track{}, busy: map[string]stepRun{}, said: map[string]string{},
		results: make(chan result, cfg.MaxSessions+1),
	}
	h.status.Store(&Status{Role: RoleUnknown, Reason: ReasonStandbyUnreachable, Detail: "not looked at yet"})
	h.report.Store(&report{body: &protocol.HelperReport{}, changed: make(chan struct{})})
	return h, nil
}

// Deliver takes a slot message in. It never blocks.
func (h *Helper) Deliver(m *protocol.SlotMessage) { h.inbox.put(m, time.Now()) }

// NoRelay notes that the upstream address answers, but not as a relay.
func (h *Helper) NoRelay() { h.inbox.noRelay() }

// UpstreamTrouble notes why no slot message comes, by the SQLSTATE and the text
// of an error; two empty texts take it back. It never blocks.
func (h *Helper) UpstreamTrouble(code, text string) {
	h.inbox.trouble(upstreamReason(code, text), text)
}

// UpstreamSystem notes the system identifier of the server that the standby's
// walreceiver has reached. It never blocks.
func (h *Helper) UpstreamSystem(id uint64) { h.inbox.system(id) }

// Report returns the newest report for the relay, and a channel that closes when
// there is a newer one.
func (h *Helper) Report() (*protocol.HelperReport, <-chan struct{}) {
	r := h.report.Load()
	return r.body, r.changed
}

// Status returns the newest status. The value is not changed any more.
func (h *Helper) Status() *Status {
	st := *h.status.Load()
	st.Panics = h.panics.Count()
	return &st
}

// Run keeps the slots until the context ends. It returns after all of its
// sessions and goroutines have. READY slots stay; the anchor goes. Its error is
// nil unless the state directory cannot be had.
func (h *Helper) Run(ctx context.Context) error {
	unlock, err := lockStateDir(h.cfg.StateDir)
	if err != nil {
		return err
	}
	defer unlock()
	defer h.shutdown()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.inbox.wake:
			if !h.asksForLook(h.inbox.get()) {
				continue
			}
		case r := <-h.results:
			changed := h.settleAll(r)
			h.pump(ctx)
			if !changed {
				continue
			}
			if wait := queueWait(h.queue, time.Since(h.lastLook)); wait > 0 {
				timer.Reset(wait)
				continue
			}
		case <-timer.C:
		}
		if wait := max(minLookPause, h.lookTook) - time.Since(h.lastLook); wait > 0 {
			timer.Reset(wait)
			continue
		}
		began := time.Now()
		h.look(ctx)
		h.lastLook = time.Now()
		h.lookTook = h.lastLook.Sub(began)
		timer.Reset(h.nextLook())
	}
}

// nextLook is when to look again if nothing happens before. An anchor in creation
// waits for a record that has to be asked for; a standby without a walreceiver
// may be about to be promoted, and the last advance should not come late.
func (h *Helper) nextLook() time.Duration {
	switch {
	case h.anchor.Phase == AnchorCreating:
		return lookInterval / 4
	case h.standby.InRecovery && h.standby.ReceivedTLI == 0:
		return lookInterval / 10
	}
	return lookInterval
}

// queueWait is how long a look that shows what has changed is put off. Where many
// slots wait to be made or dropped, a look after each of them would cost more than
// they do. Advances that wait are no reason: they may take long, and never keep a
// new slot from being shown ready.
func queueWait(queue []Step, sinceLook time.Duration) time.Duration {
	if len(queue) == 0 || queue[0].Kind == StepAdvance { // inOrder puts advances last
		return 0
	}
	return queueLookInterval - sinceLook
}

// settleAll settles a result and those behind it. It reports whether any of them
// changed what exists: an advance does not, and is no reason to look at once.
func (h *Helper) settleAll(r result) (changed bool) {
	for {
		changed = changed || r.step.Kind != StepAdvance || r.err != nil
		h.settle(r)
		select {
		case r = <-h.results:
		default:
			return changed
		}
	}
}

// shutdown cancels what is under way and waits for it.
func (h *Helper) shutdown() {
	for _, run := range h.busy {
		run.cancel()
	}
	h.closeAnchor()
	done := make(chan struct{})
	go func() { h.workers.Wait(); close(done) }()
	for running := true; running; {
		select {
		case r := <-h.results:
			h.settle(r)
		case <-done:
			running = false
		}
	}
	for len(h.results) > 0 {
		h.settle(<-h.results)
	}
	if h.ledger != nil {
		h.recordOutcomes()
	}
	h.closeAnchor()
	if h.monitor != nil {
		closeSession(h.monitor)
	}
	h.sessions.close()
}

// say logs a subject's state once per change.
func (h *Helper) say(subject, state string, event *zerolog.Event, msg string) {
	if h.said[subject] == state {
		event.Discard()
		return
	}
	h.said[subject] = state
	event.Msg(msg)
}
