package decoder

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

var testNode = NodeIdentity{SystemIdentifier: 1, DataDirectory: "/var/lib/postgresql/18/main", Host: "standby1"}

func testRow(name string) LedgerRow {
	return LedgerRow{
		Name: name, Database: "app", Plugin: "pgoutput", ID: "0123456789abcdef", Intent: IntentCopy, Released: true,
		BornLSN: 0x1000, UpstreamLSN: 0x5000, HighLSN: 0x6000, HighTimelineID: 1, PostmasterStart: 7, TimelineID: 2,
		Distrusted: true, Consumed: true, Since: viewNow,
	}
}

func mustOpen(t *testing.T, dir string, node NodeIdentity) (*Ledger, string) {
	t.Helper()
	l, setAside, err := OpenLedger(dir, node)
	if err != nil {
		t.Fatal(err)
	}
	return l, setAside
}

func TestLedgerRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l, setAside := mustOpen(t, dir, testNode)
	if setAside != "" || len(l.Rows()) != 0 {
		t.Fatalf("new ledger: set aside %q, rows %v", setAside, l.Rows())
	}
	want := map[string]LedgerRow{"orders_sub": testRow("orders_sub"), "audit_sub": testRow("audit_sub")}
	if err := l.Update(func(rows map[string]LedgerRow) { maps.Copy(rows, want) }); err != nil {
		t.Fatal(err)
	}
	l, setAside = mustOpen(t, dir, testNode)
	if got := l.Rows(); setAside != "" || !maps.Equal(got, want) {
		t.Errorf("read again: set aside %q, got\n%v\nwant\n%v", setAside, got, want)
	}
	row := l.Rows()["orders_sub"]
	var again LedgerRow
	again.remember(row.track())
	if again.track() != row.track() {
		t.Errorf("remember: got %+v, want %+v", again.track(), row.track())
	}
	l.Rows()["orders_sub"] = LedgerRow{}
	if !maps.Equal(l.Rows(), want) {
		t.Error("Rows is not a copy")
	}
	onlyFile(t, dir, ledgerFile)
	info, err := os.Stat(filepath.Join(dir, ledgerFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode is %v, want 0600", got)
	}
}

// onlyFile checks that nothing else was left in the state directory.
// A helper that starts knows whether protection was whole, and in which life of the
// upstream, and does not take what was seen of another for that.
func TestLedgerKnowsProtection(t *testing.T) {
	dir := t.TempDir()
	l, _ := mustOpen(t, dir, testNode)
	whole := Protection{PostmasterStart: 7, TimelineID: 2, SlotName: "standby1", Held: 3, Since: 0x5000, Whole: true}
	missing := Protection{PostmasterStart: 8, TimelineID: 2, SlotName: "standby1", Held: 4, Since: 0x6000}
	for _, tc := range []struct{ protection, want Protection }{
		{Protection{}, Protection{}},
		{whole, Protection{PostmasterStart: 7, TimelineID: 2, SlotName: "standby1", Whole: true}},
		{missing, Protection{}},
	} {
		if err := l.Protect(tc.protection); err != nil {
			t.Fatal(err)
		}
		if l, _ = mustOpen(t, dir, testNode); l.Protection() != tc.want {
			t.Errorf("after %+v: %+v, want %+v", tc.protection, l.Protection(), tc.want)
		}
	}
}

func onlyFile(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("state directory has %v, want %s alone", entries, name)
	}
}

func TestLedgerAfterACrashInTheMiddleOfAWrite(t *testing.T) {
	dir := t.TempDir()
	l, _ := mustOpen(t, dir, testNode)
	if err := l.Update(func(rows map[string]LedgerRow) { rows["a"] = testRow("a") }); err != nil {
		t.Fatal(err)
	}
	tmp := filepath.Join(dir, ledgerFile+".new")
	if err := os.WriteFile(tmp, []byte(`{"version": 1, "slo`), 0o644); err != nil {
		t.Fatal(err)
	}
	l, setAside := mustOpen(t, dir, testNode)
	if setAside != "" || len(l.Rows()) != 1 {
		t.Errorf("set aside %q, rows %v, want the rows of the last whole write", setAside, l.Rows())
	}
	onlyFile(t, dir, ledgerFile)
	info, err := os.Stat(filepath.Join(dir, ledgerFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode is %v, that of the torn file, want 0600", got)
	}
}

func TestLedgerSetAside(t *testing.T) {
	dir := t.TempDir()
	l, _ := mustOpen(t, dir, testNode)
	if err := l.Update(func(rows map[string]LedgerRow) { rows["a"] = testRow("a") }); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, ledgerFile))
	if err != nil {
		t.Fatal(err)
	}
	edit := func(old, new string) string {
		if !strings.Contains(string(good), old) {
			t.Fatalf("ledger has no %q:\n%s", old, good)
		}
		return strings.Replace(string(good), old, new, 1)
	}
	for _, tc := range []struct {
		name, content, why string
	}{
		{"empty", "", "parse ledger"},
		{"torn", string(good[:len(good)/2]), "parse ledger"},
		{"two of them", string(good) + string(good), "parse ledger"},
		{"not a ledger", `["a"]`, "parse ledger"},
		{"null", `null`, "version is 0"},
		{"bad position", edit(`"born_lsn": "0/1000"`, `"born_lsn": "0/1000x"`), "parse LSN"},
		{"row of another slot", edit(`"slot_name": "a"`, `"slot_name": "b"`), `row "a" is of slot "b"`},
		{"unknown intent", edit(`"intent": "copy"`, `"intent": "move"`), `unknown intent "move"`},
		{"other version", edit(`"version": 1`, `"version": 2`), "its version is 2, known is 1"},
		{"other system", edit(`"system_identifier": "1"`, `"system_identifier": "2"`), "system identifier 2"},
		{"other machine", edit(`"host": "standby1"`, `"host": "standby2"`), "on standby2"},
		{"other data directory", edit(`18/main`, `18/other`), "18/other on standby1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, ledgerFile), []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			l, setAside := mustOpen(t, dir, testNode)
			if len(l.Rows()) != 0 {
				t.Errorf("rows of it are believed: %v", l.Rows())
			}
			if !strings.Contains(setAside, tc.why) {
				t.Errorf("set aside as %q, want %q in it", setAside, tc.why)
			}
			kept, err := filepath.Glob(filepath.Join(dir, ledgerFile+".set-aside-*"))
			if err != nil || len(kept) != 1 {
				t.Fatalf("set aside: %v, %v", kept, err)
			}
			if raw, _ := os.ReadFile(kept[0]); string(raw) != tc.content {
				t.Errorf("what was set aside is changed")
			}
			if _, setAside := mustOpen(t, dir, testNode); setAside != "" {
				t.Errorf("set aside again: %s", setAside)
			}
		})
	}
}

func TestLedgerWriteFailureChangesNothing(t *testing.T) {
	dir := t.TempDir()
	l, _ := mustOpen(t, dir, testNode)
	if err := l.Update(func(rows map[string]LedgerRow) { rows["a"] = testRow("a") }); err != nil {
		t.Fatal(err)
	}
	before := l.Rows()
	// A directory in the way fails the open for every user, root too.
	tmp := filepath.Join(dir, ledgerFile+".new")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	err := l.Update(func(rows map[string]LedgerRow) { delete(rows, "a"); rows["b"] = testRow("b") })
	if err == nil {
		t.Fatal("no error")
	}
	if !maps.Equal(l.Rows(), before) {
		t.Errorf("rows are %v, want those before the write", l.Rows())
	}
	if err := os.Remove(tmp); err != nil {
		t.Fatal(err)
	}
	if l, _ := mustOpen(t, dir, testNode); !maps.Equal(l.Rows(), before) {
		t.Errorf("file has %v, want the rows before the write", l.Rows())
	}
}

func TestReplaceFileLeavesNoNewFileBehind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := os.Mkdir(path, 0o700); err != nil { // a file cannot be renamed over a directory
		t.Fatal(err)
	}
	if err := replaceFile(osFiles{}, path, []byte("x")); err == nil {
		t.Fatal("no error")
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the new file is still there: %v", err)
	}
}

func TestLedgerUpdateWithoutAChangeWritesNothing(t *testing.T) {
	dir := t.TempDir()
	l, _ := mustOpen(t, dir, testNode)
	if err := os.Remove(filepath.Join(dir, ledgerFile)); err != nil {
		t.Fatal(err)
	}
	if err := l.Update(func(map[string]LedgerRow) {}); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("written: %v", entries)
	}
}

func TestLedgerRowDescribes(t *testing.T) {
	row := LedgerRow{Name: "a", Database: "app", Plugin: "pgoutput", BornLSN: 0x1000}
	ours := func(change func(*LocalSlot)) LocalSlot {
		l := LocalSlot{}
		l.Name, l.Database, l.Plugin, l.ConfirmedFlushLSN = "a", "app", "pgoutput", 0x1000
		change(&l)
		return l
	}
	for _, tc := range []struct {
		name   string
		slot   LocalSlot
		intent Intent
		want   bool
	}{
		{"where it was born", ours(func(*LocalSlot) {}), IntentNone, true},
		{"moved on", ours(func(l *LocalSlot) { l.ConfirmedFlushLSN = 0x2000 }), IntentNone, true},
		{"behind where it was born", ours(func(l *LocalSlot) { l.ConfirmedFlushLSN = 0xFFF }), IntentNone, false},
		{"no position", ours(func(l *LocalSlot) { l.ConfirmedFlushLSN = 0 }), IntentNone, false},
		{"no position, in a copy", ours(func(l *LocalSlot) { l.ConfirmedFlushLSN = 0 }), IntentCopy, true},
		{"physical", ours(func(l *LocalSlot) { l.Physical = true }), IntentNone, false},
		{"physical, in a copy", ours(func(l *LocalSlot) { l.Physical = true }), IntentCopy, false},
		{"temporary", ours(func(l *LocalSlot) { l.Temporary = true }), IntentNone, false},
		{"synced", ours(func(l *LocalSlot) { l.Synced = true }), IntentNone, false},
		{"other database", ours(func(l *LocalSlot) { l.Database = "b" }), IntentNone, false},
		{"other plugin", ours(func(l *LocalSlot) { l.Plugin = "b" }), IntentNone, false},
	} {
		row.Intent = tc.intent
		if got := row.describes(&tc.slot); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestLedgerRowsOfSteps(t *testing.T) {
	track := Track{Confirmed: 0x5000, High: 0x6000, HighTimelineID: 1, PostmasterStart: 7, TimelineID: 2}
	l := LocalSlot{}
	l.ConfirmedFlushLSN, l.RestartLSN = 0x3000, 0x2F00
	print := func(rows map[string]LedgerRow) string {
		r, ok := rows["a"]
		if !ok {
			return "no row"
		}
		return fmt.Sprintf("%s.%s intent %q released %v born %v upstream %v", r.Database, r.Name, r.Intent, r.Released,
			r.BornLSN, r.UpstreamLSN)
	}
	settled := LedgerRow{Name: "a", Database: "app", Plugin: "pgoutput", ID: "1", BornLSN: 0x1000, UpstreamLSN: 0x4000}
	released := settled
	released.Released = true
	for _, tc := range []struct {
		step                  StepKind
		row                   *LedgerRow
		wantIntent, wantAfter string
	}{
		{StepCopy, nil, `app.a intent "copy" released false born 0/0 upstream 0/5000`,
			`app.a intent "" released false born 0/1000 upstream 0/5000`},
		{StepCopy, &released, `app.a intent "copy" released false born 0/0 upstream 0/5000`,
			`app.a intent "" released false born 0/1000 upstream 0/5000`},
		{StepAdopt, nil, `app.a intent "" released false born 0/2F00 upstream 0/5000`,
			`app.a intent "" released false born 0/2F00 upstream 0/5000`},
		{StepDrop, &settled, `app.a intent "drop" released false born 0/1000 upstream 0/4000`, `no row`},
		{StepDrop, nil, `no row`, `no row`},
		{StepForget, &settled, `no row`, `no row`},
	} {
		rows := map[string]LedgerRow{}
		if tc.row != nil {
			rows["a"] = *tc.row
		}
		s := Step{Kind: tc.step, Slot: "a", Database: "app", Plugin: "pgoutput"}
		writeIntent(rows, s, track, &l, time.Time{})
		if got := print(rows); got != tc.wantIntent {
			t.Errorf("%s begun: got %s, want %s", tc.step, got, tc.wantIntent)
		}
		writeOutcome(rows, s, 0x1000)
		if got := print(rows); got != tc.wantAfter {
			t.Errorf("%s done: got %s, want %s", tc.step, got, tc.wantAfter)
		}
	}
}

// The ledger has a U for wherever a slot may have come to, and one write serves
// more than one advance.
func TestLedgerKnowsUOfAdvances(t *testing.T) {
	advance := Step{Kind: StepAdvance, Slot: "a", Target: 0x5000}
	for _, tc := range []struct{ recorded, local, want protocol.LSN }{
		{0x4000, 0x3000, 0x4000}, // as far as is written already
		{0x4000, 0x4000, 0x5000}, // to be written first
		{0x6000, 0x3000, 0x5000},
		{0, 0x3000, 0x5000},
	} {
		l := LocalSlot{}
		l.ConfirmedFlushLSN = tc.local
		if got := withinRecord(advance, LedgerRow{UpstreamLSN: tc.recorded}, &l).Target; got != tc.want {
			t.Errorf("recorded %v, slot at %v: advance to %v, want %v", tc.recorded, tc.local, got, tc.want)
		}
	}
	rows := map[string]LedgerRow{"a": {Name: "a"}, "b": {Name: "b", Released: true}, "c": {Name: "c", UpstreamLSN: 1}}
	rememberTracks(rows, map[string]Track{"a": {Confirmed: 7}, "b": {Confirmed: 8}, "c": {}})
	for name, want := range map[string]protocol.LSN{"a": 7, "b": 0, "c": 1} {
		if got := rows[name].UpstreamLSN; got != want {
			t.Errorf("row %s has %v, want %v", name, got, want)
		}
	}
}

// FuzzParseLedger checks that a ledger file with an error is refused whole, and
// one without is written as it was read.
func FuzzParseLedger(f *testing.F) {
	f.Add([]byte(`{"version":1,"node":{"system_identifier":"1"},"slots":{"a":{"slot_name":"a","intent":"drop","born_lsn":"0/1"}}}`))
	f.Add([]byte(`{"slots":{"a":{"slot_name":"b"}}}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`{"version":1`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := parseLedger(raw)
		if err != nil {
			if b.Version != 0 || len(b.Slots) != 0 {
				t.Fatalf("with error %v: %+v", err, b)
			}
			return
		}
		if b.Slots == nil {
			t.Fatal("rows cannot be written to")
		}
		for name, row := range b.Slots {
			if name == "" || row.Name != name {
				t.Fatalf("row %q is of slot %q", name, row.Name)
			}
		}
		path := filepath.Join(t.TempDir(), ledgerFile)
		l := Ledger{path: path, body: b}
		if err := l.write(); err != nil {
			if strings.Contains(err.Error(), "encode ledger") {
				return // a time with a zone or year that JSON cannot say
			}
			t.Fatal(err)
		}
		again, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c, err := parseLedger(again)
		if err != nil {
			t.Fatalf("read again: %v\n%s", err, again)
		}
		if c.Version != b.Version || c.Node != b.Node || len(c.Slots) != len(b.Slots) {
			t.Fatalf("read again: got %+v, want %+v", c, b)
		}
	})
}
