package decoder

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// seededMutant is the package with one guard taken out. The guard is found by its
// text, so that a mutant cannot outlive it, and the mutant stands in a copy of the
// source that only this test compiles: what goes into the product knows nothing of
// it.
type seededMutant struct {
	guard string // what is taken out, by its invariant
	by    string // the tests that have to fail
	edits []mutation
}

// mutation replaces old, which must be in the file once. ON in the replacement is
// true in a run of this mutant, and false in all others.
type mutation struct{ file, old, replacement string }

const (
	byModel       = "TestModel"
	byTranscripts = "TestDecide|TestPlanPromotion"
	byInbox       = "TestInbox"
)

// never is a condition that a mutant does not look at any more.
func never(file, before, condition, after string) mutation {
	return mutation{file, before + condition + after, before + "!ON && (" + condition + ")" + after}
}

// always is a condition that holds for a mutant whatever is the case.
func always(file, before, condition, after string) mutation {
	return mutation{file, before + condition + after, before + "(ON || " + condition + ")" + after}
}

var seededMutants = []seededMutant{
	// What is ready.
	{"I-0: the anchor's position is replayed", byTranscripts, []mutation{
		never("judge_missing.go", "case ", "v.Standby.Replay < v.Anchor.Position", ": // I-0"),
	}},
	{"I-2: no copy past U", byModel, []mutation{
		never("judge_missing.go", "case ", "u.ConfirmedFlushLSN < v.Anchor.Position", ": // I-2"),
		never("model_helper_test.go", "case s.replay < step.Target || ", "step.Upstream < step.Target", ":"), // the gate in steps.go
	}},
	{"I-2: not invalid here", byModel, []mutation{
		never("judge_owned.go", "case ", `l.InvalidationReason != ""`, ":\n\t\treturn drop(pending(invalidated("),
	}},
	{"I-2: same database and plugin", byTranscripts, []mutation{
		never("judge_owned.go", "case ", "l.Database != u.Database || l.Plugin != u.Plugin", ":\n\t\treturn drop("),
	}},
	{"I-3: catalog_xmin is held", byModel, []mutation{
		never("judge_owned.go", "case ", "protection.bad()", ":\n\t\treturn protection"),
	}},
	{"I-3: the anchor is protected", byTranscripts, []mutation{
		never("judge_missing.go", "if x := held(v, v.Anchor.CatalogXmin); ", "x.bad()", " {"),
	}},
	{"I-3: what was broken is not trusted", byTranscripts, []mutation{
		never("judge_owned.go", "if ", "t.Distrusted", " { // I-3"),
	}},
	{"I-3: what was broken is not handed over", byTranscripts, []mutation{
		never("promotion_plan.go", "case ", "t.Distrusted", ":"),
	}},
	{"I-3: what was vacuumed without protection is replayed", byModel, []mutation{
		always("protected_since.go", "case ", "p.Whole", ":\n\t\treturn verdict{}"),
	}},
	{"I-3: protection is proven anew in another life of the upstream", byModel, []mutation{
		never("protected_since.go", "if ", "p.life() != now", " || "),
	}},
	{"I-3: a message's position is from before its slots", byTranscripts, []mutation{
		always("protected_since.go", "== protocol.InvalidLSN && ", "m.Sequence != p.Held", ":"),
		{"protected_since.go", "p.Held = m.Sequence\n", "if p.Held = m.Sequence; ON {\n\t\t\tp.Since = m.CaptureLSN\n\t\t}\n"},
	}},
	{"I-4: found past U", byModel, []mutation{
		never("judge_owned.go", "case ", "l.ConfirmedFlushLSN > u.ConfirmedFlushLSN", ": // I-4"),
	}},
	{"I-4: not advanced past U", byModel, []mutation{
		{"advance_plan.go", "target := min(u.ConfirmedFlushLSN,",
			"target := min(pick(ON, v.Standby.Replay, u.ConfirmedFlushLSN),"},
	}},
	{"I-4: not advanced past R", byTranscripts, []mutation{
		{"advance_plan.go", " v.Standby.Replay, l.ConfirmedFlushLSN+v.Settings.MaxStep)",
			" pick(ON, u.ConfirmedFlushLSN, v.Standby.Replay), l.ConfirmedFlushLSN+v.Settings.MaxStep)"},
	}},
	{"I-4: that somebody consumed it is remembered", byModel, []mutation{
		{"ledger_row.go", "if seen && !row.Released && (t.Distrusted", "if seen && !ON && !row.Released && (t.Distrusted"},
	}},

	// What is believed of the upstream.
	{"I-6: the timeline of a message", byModel, []mutation{
		never("protection.go", "case ", "up.Message.TimelineID != s.ReceivedTLI", ": // I-6"),
	}},
	{"I-6: the system identifier of a message", byTranscripts, []mutation{
		never("protection.go", "case ", "up.Message.SystemIdentifier != s.SystemIdentifier", ": // I-6"),
	}},
	{"I-6: High is cut off at a switch", byTranscripts, []mutation{
		{"track.go", "max(t.Confirmed, min(t.High, end))", "pick(ON, t.High, max(t.Confirmed, min(t.High, end)))"},
	}},
	{"I-6: a message comes once", byInbox, []mutation{
		never("inbox.go", "if ", "at >= 0 && m.Sequence <= b.epochs[at].sequence", " || overtaken"),
	}},
	{"I-6: a later moment is not overtaken", byInbox, []mutation{
		never("inbox.go", "|| ", "overtaken(m, b.newest.Message, at >= 0)", " {"),
	}},
	{"I-14: a position that goes back is another slot", byModel, []mutation{
		never("track.go", "u.ConfirmedFlushLSN == protocol.InvalidLSN || ", "u.ConfirmedFlushLSN < t.Confirmed && sameLife", " {"),
	}},
	{"I-14: only what was confirmed excuses a slot that is ahead", byModel, []mutation{
		always("track.go", "return ", "t.Confirmed < t.High && local <= t.High", "\n"),
	}},
	{"I-15: silence ends readiness", byModel, []mutation{
		never("protection.go", "case ", "stale(v)", ":\n"),
	}},
	{"I-15: silence drops nothing", byTranscripts, []mutation{
		{"gone.go", "if top.bad() {", "if top.bad() && !(ON && top.reason == ReasonUpstreamStale) {"},
	}},
	{"I-15: invalid upstream", byModel, []mutation{
		never("judge_owned.go", "case ", `u.InvalidationReason != ""`, ": // I-15"),
	}},

	// Whose a slot is.
	{"I-9: the ledger's slot is the one that is there", byTranscripts, []mutation{
		{"ledger_row.go", "	return at >= r.BornLSN\n}", "	return ON || at >= r.BornLSN\n}"},
	}},
	{"I-9: adopted only on this history", byTranscripts, []mutation{
		never("judge_foreign.go", "if x := offHistory(&v.Standby, row, l); ", "x.bad()", " {"),
	}},
	{"I-9: adopted only behind the subscriber", byTranscripts, []mutation{
		never("judge_foreign.go", "case ", "l.ConfirmedFlushLSN > u.ConfirmedFlushLSN", ":\n\t\treturn pending(ReasonAheadOfUpstream"),
	}},
	{"I-9: a slot that is in use is left alone", byTranscripts, []mutation{
		never("judge_foreign.go", "case ", "l.Active", ":\n"),
	}},
	{"I-9: a slot of another manager is left to it", byTranscripts, []mutation{
		never("decide.go", "case ", "judgeOthers(tracks[u.Name]).bad()", ":"),
	}},
	{"I-9: a slot that was found here is ready when it has moved", byTranscripts, []mutation{
		never("judge_owned.go", "if x := judgeFound(row, l); ", "x.bad()", " {"),
	}},
	{"I-9: a slot that was found here is not promised before", byTranscripts, []mutation{
		never("promotion_plan.go", "if x := judgeFound(row, l); ", "x.bad()", " {"),
	}},
	{"I-10: U is written down before an advance", byModel, []mutation{
		never("ledger_row.go", "; ", "s.Kind == StepAdvance && s.Target > rows[s.Slot].UpstreamLSN", " {"),
	}},
	{"I-10: a copy is written down before it is made", byModel, []mutation{
		{"ledger_row.go", "	if had || s.Kind == StepCopy || s.Kind == StepAdopt {",
			"	if had || s.Kind == StepCopy && !ON || s.Kind == StepAdopt {"},
	}},
	{"I-16: slots of the slot sync worker", byTranscripts, []mutation{
		never("decide.go", "local.Synced, ", "v.Standby.SyncReplicationSlots && u.Failover && !v.Upstream.Message.InRecovery", ": // I-16"),
	}},
	{"I-8: prepared before the flag", byTranscripts, []mutation{
		never("judge_owned.go", "if x := preparedBefore(v, l, u, t); ", "x.bad()", " { // I-8"),
	}},

	// A promotion.
	{"I-5: not advanced past the switch", byModel, []mutation{
		{"promotion_plan.go", "p.Target = min(t.Confirmed, end)", "p.Target = min(t.Confirmed, pick(ON, t.Confirmed, end))"},
	}},
	{"I-7: only what this helper has heard moves a slot", byModel, []mutation{
		always("promotion_plan.go", "if ", "t.Heard", " {"),
	}},
	{"I-7: a slot that was consumed is not handed over", byModel, []mutation{
		never("promotion_plan.go", "case ", "t.Consumed", ":"),
		never("promotion_plan.go", "case ", "t.Confirmed != 0 && l.ConfirmedFlushLSN > t.Confirmed && !v.withHistory(t).coversAhead(l.ConfirmedFlushLSN)", ":"),
	}},
	{"I-7: half dropped is not handed over", byTranscripts, []mutation{
		never("promotion_plan.go", "case ", "row.Intent == IntentDrop", ":"),
	}},
}

// mutantSwitch is the file that is added to the package.
const mutantSwitch = `package decoder

import "os"

var seeded = os.Getenv("SLOTFERRY_MUTANT")

func pick[T any](on bool, mutated, otherwise T) T {
	if on {
		return mutated
	}
	return otherwise
}
`

// modelChecks is how many sequences the model runs, for no mutant and for each.
const modelChecks = "10000"

// The model, or a transcript where it cannot see a guard, catches the package with
// any one guard taken out, and finds nothing wrong with the whole one. For a mutant
// the sequences are always the same, so that its end does not depend on luck.
func TestEveryGuardIsTested(t *testing.T) {
	binary := buildMutants(t)
	run := func(guard, tests string, more ...string) (string, error) {
		cmd := exec.Command(binary, append([]string{"-test.run", "^(" + tests + ")$", "-rapid.checks", modelChecks, "-rapid.nofailfile"}, more...)...)
		cmd.Env = append(os.Environ(), "SLOTFERRY_MUTANT="+guard)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		if out, err := run("", strings.Join([]string{byModel, byTranscripts, byInbox}, "|")); err != nil {
			t.Fatalf("with no guard taken out: %v\n%s", err, out)
		}
	})
	for _, m := range seededMutants {
		t.Run(m.guard, func(t *testing.T) {
			t.Parallel()
			out, err := run(m.guard, m.by, "-rapid.seed", "1", "-rapid.shrinktime", "0s")
			var exit *exec.ExitError
			switch {
			case err == nil:
				t.Errorf("%s does not notice that this guard is gone", m.by)
			case !errors.As(err, &exit) || !strings.Contains(out, "--- FAIL: Test") || strings.Contains(out, "panic: "):
				t.Errorf("%s ended by itself: %v\n%s", m.by, err, out)
			}
			if n := regexp.MustCompile(`failed after (\d+) tests`).FindStringSubmatch(out); n != nil {
				t.Logf("caught after %s sequences", n[1])
			}
		})
	}
}

// buildMutants compiles the package and its tests with all mutants in, of which the
// environment variable SLOTFERRY_MUTANT chooses one.
func buildMutants(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	text := map[string]string{"mutant.go": mutantSwitch}
	for _, m := range seededMutants {
		for _, e := range m.edits {
			if text[e.file] == "" {
				raw, err := os.ReadFile(e.file)
				if err != nil {
					t.Fatal(err)
				}
				text[e.file] = string(raw)
			}
			if n := strings.Count(text[e.file], e.old); n != 1 {
				t.Fatalf("%s: %s has the guard %d times:\n%s", m.guard, e.file, n, e.old)
			}
			replacement := strings.ReplaceAll(e.replacement, "ON", `(seeded == "`+m.guard+`")`)
			text[e.file] = strings.Replace(text[e.file], e.old, replacement, 1)
		}
	}
	for file, content := range text {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(here, file)] = path
	}
	raw, err := json.Marshal(&overlay)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), raw, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "decoder.test")
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("compile the mutants: %v\n%s", err, &out)
	}
	return binary
}
