package decoder

import (
	"slices"
	"unicode/utf8"

	"github.com/slotferry/slotferry/protocol"
)

// judgeMissing judges an upstream slot that the standby does not have.
func judgeMissing(v *View, u *protocol.SlotState) (verdict, Step) {
	switch {
	case u.InvalidationReason != "":
		return blocked(ReasonUpstreamInvalidated, "%s", u.InvalidationReason), Step{}
	case !utf8.ValidString(u.Database):
		return blocked(ReasonError, "the name of database %q is not UTF-8: its slots are not made", u.Database), Step{}
	case judgeTwoPhase(v, u).bad(): // I-8
		return judgeTwoPhase(v, u), Step{}
	case judgePlugin(v, u).bad():
		return judgePlugin(v, u), Step{}
	case u.ConfirmedFlushLSN == 0:
		return pending(ReasonBeingCreated, ""), Step{}
	case v.Anchor.Phase != AnchorLive && v.Anchor.Phase != AnchorMoving:
		return whyNoAnchor(v), Step{}
	case u.ConfirmedFlushLSN < v.Anchor.Position: // I-2
		return pending(ReasonSubscriberBehind, "%d bytes, up to %v", v.Anchor.Position-u.ConfirmedFlushLSN, v.Anchor.Position), Step{}
	case v.Standby.Replay < v.Anchor.Position: // I-0
		return pending(ReasonWALNotReplayed, "%v replayed, %v needed", v.Standby.Replay, v.Anchor.Position), Step{}
	}
	if x := held(v, v.Anchor.CatalogXmin); x.bad() { // I-3
		return x, Step{}
	}
	if !upstreamReady(v, u) {
		return pending(ReasonUpstreamNotReady, "%s upstream", u.Readiness), Step{}
	}
	if v.Anchor.Phase == AnchorMoving {
		return pending(ReasonBeingMade, "the anchor is being advanced"), Step{}
	}
	return pending(ReasonBeingMade, ""), Step{
		Kind: StepCopy, Target: v.Anchor.Position, TwoPhase: u.TwoPhase,
		ByOption: u.TwoPhase && v.Standby.ServerVersionNum < alterVersion,
	}
}

// judgePlugin says that the standby does not load the slot's output plugin for
// anybody; the zero verdict when it does, as far as a setting tells.
func judgePlugin(v *View, u *protocol.SlotState) verdict {
	if v.Standby.OutputPlugins == nil || slices.Contains(v.Standby.OutputPlugins, u.Plugin) {
		return verdict{}
	}
	return blocked(ReasonPluginNotListed, "output_plugin_libraries does not list %s on the standby", u.Plugin)
}

// upstreamReady says whether the upstream's own slot allows ours to be ready.
// Behind a standby readiness is handed on, never upgraded; a slot that
// PostgreSQL's own worker keeps there is persistent only once it is sync-ready.
func upstreamReady(v *View, u *protocol.SlotState) bool {
	return !v.Upstream.Message.InRecovery || u.Readiness == protocol.ReadinessReady || u.Synced
}
