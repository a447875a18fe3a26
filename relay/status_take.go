package relay

import (
	"cmp"
	"slices"
)

// Status returns what is known now. It may be called at any time.
func (r *Relay) Status() Status {
	r.mu.Lock()
	st := Status{
		Mode: r.cfg.Mode, Upstream: r.addrs.strings(), Accepted: r.accepted, Failed: r.failed,
		NoRelay: r.seen.noRelay, UpstreamError: r.seen.upstreamError, SystemIdentifier: r.seen.system, Listen: make([]string, 0, len(r.listeners)),
	}
	for _, l := range r.listeners {
		st.Listen = append(st.Listen, l.Addr().String())
	}
	sessions := make([]*session, 0, len(r.sessions))
	for _, s := range r.sessions {
		sessions = append(sessions, s)
	}
	r.mu.Unlock()

	st.Sessions = make([]SessionStatus, len(sessions))
	for i, s := range sessions {
		st.Sessions[i] = s.status()
	}
	slices.SortFunc(st.Sessions, func(a, b SessionStatus) int { return cmp.Compare(a.ID, b.ID) })
	if r.cfg.Slots != nil {
		source := r.cfg.Slots.Status()
		st.SlotSource = &source
	}
	if r.hold != nil {
		st.HoldBack = r.hold.status()
	}
	return st
}

func (s *session) status() SessionStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &s.facts
	st := SessionStatus{
		ID: s.id, Kind: f.kind, State: stateStartup, Downstream: s.downstream.conn.RemoteAddr().String(),
		Upstream: f.upstream.address, DownstreamTLS: s.downstream.tlsVersion(), UpstreamTLS: s.upstream.tlsVersion(), Started: s.started, OptedIn: f.optedIn, NoRelay: f.noRelay,
		Spliced: f.spliced, Stripped: f.stripped, Damaged: f.damaged, LastSlotMessage: f.lastMessage,
		HelperReport: f.helperReport,
	}
	st.ApplicationName, _ = f.startup.Get("application_name")
	st.User, _ = f.startup.Get("user")
	st.Database, _ = f.startup.Get("database")
	if s.down.flow == nil {
		return st
	}
	st.State = s.conv.State()
	if s.conv.sidecar != sidecarNone {
		st.Kind = KindSidecar
	}
	st.TimelineID, st.StartLSN = s.conv.command.TimelineID, s.conv.command.StartLSN
	st.Position = s.down.flow.Position()
	if s.held != nil {
		st.Position, st.HoldBack = s.down.flow.gate.shown, s.held.status()
	}
	return st
}
