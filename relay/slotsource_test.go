package relay

import (
	"strings"
	"testing"
	"time"

	"github.com/slotferry/slotferry/protocol"
)

func TestSlotFilter(t *testing.T) {
	const sync = "pg_16394_sync_16384_7394857364758392847"
	for name, tt := range map[string]struct {
		filters SlotFilters
		want    string
	}{
		"all but table sync": {SlotFilters{}, "orders orders_old pg_x_sync_1_2 stock"},
		"table sync too":     {SlotFilters{IncludeTableSync: true}, "orders orders_old " + sync + " pg_x_sync_1_2 stock"},
		"include":            {SlotFilters{Include: []string{"ord*", "none"}}, "orders orders_old"},
		"exclude":            {SlotFilters{Include: []string{"ord*"}, Exclude: []string{"*_old"}}, "orders"},
		"database":           {SlotFilters{Databases: []string{"we'ird"}}, "stock"},
	} {
		f, err := newSlotFilter(tt.filters)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range []protocol.SlotState{
			{Name: "orders", Database: "a"}, {Name: "orders_old", Database: "a"}, {Name: sync, Database: "a"},
			{Name: "pg_x_sync_1_2", Database: "a"}, {Name: "stock", Database: "we'ird"},
		} {
			if f.selects(&s) {
				got = append(got, s.Name)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	if _, err := newSlotFilter(SlotFilters{Include: []string{"[a"}, Databases: []string{"[b"}}); err == nil ||
		!strings.Contains(err.Error(), "[a") || !strings.Contains(err.Error(), "[b") {
		t.Errorf("bad globs: %v", err)
	}
}

// What moves all the time is no news; that a subscriber went on is, but can wait for
// more of the same; what someone decides by cannot.
func TestNews(t *testing.T) {
	base := func() *protocol.SlotMessage {
		return &protocol.SlotMessage{
			Epoch: 1, Sequence: 1, CaptureLSN: 1, CaptureTime: 1,
			Slots:                []protocol.SlotState{{Name: "a", ConfirmedFlushLSN: 5, RestartLSN: 4}, {Name: "new", RestartLSN: 4}},
			PhysicalSlots:        []protocol.PhysicalSlot{{Name: "p", RestartLSN: 5, CatalogXmin: 7}},
			OpenTransactions:     []protocol.OpenTransaction{{Xid: 1}},
			PreparedTransactions: []protocol.PreparedTransaction{{Xid: 1}},
		}
	}
	for name, tt := range map[string]struct {
		change func(*protocol.SlotMessage)
		want   news
	}{
		"nothing":               {func(*protocol.SlotMessage) {}, noNews},
		"position":              {func(m *protocol.SlotMessage) { m.CaptureLSN, m.CaptureTime, m.Sequence = 9, 9, 9 }, noNews},
		"open transaction":      {func(m *protocol.SlotMessage) { m.OpenTransactions = nil }, noNews},
		"flushed by a standby":  {func(m *protocol.SlotMessage) { m.PhysicalSlots[0].RestartLSN = 9 }, noNews},
		"confirmed_flush":       {func(m *protocol.SlotMessage) { m.Slots[0].ConfirmedFlushLSN = 6 }, moved},
		"restart_lsn":           {func(m *protocol.SlotMessage) { m.Slots[0].RestartLSN, m.Slots[0].CatalogXmin = 5, 8 }, moved},
		"protection":            {func(m *protocol.SlotMessage) { m.PhysicalSlots[0].CatalogXmin = 0 }, changed},
		"back":                  {func(m *protocol.SlotMessage) { m.Slots[0].ConfirmedFlushLSN = 4 }, changed},
		"born":                  {func(m *protocol.SlotMessage) { m.Slots[1].ConfirmedFlushLSN = 6 }, changed},
		"moves in creation":     {func(m *protocol.SlotMessage) { m.Slots[1].RestartLSN = 6 }, changed},
		"one moves, one is new": {func(m *protocol.SlotMessage) { m.Slots[0].ConfirmedFlushLSN, m.Slots[1].ConfirmedFlushLSN = 6, 6 }, changed},
		"in use":                {func(m *protocol.SlotMessage) { m.Slots[0].Active = true }, moved},
		"invalid":               {func(m *protocol.SlotMessage) { m.Slots[0].InvalidationReason = "wal_removed" }, changed},
		"readiness":             {func(m *protocol.SlotMessage) { m.Slots[0].Readiness = protocol.ReadinessReady }, changed},
		"a slot gone":           {func(m *protocol.SlotMessage) { m.Slots = nil }, changed},
		"prepared transaction":  {func(m *protocol.SlotMessage) { m.PreparedTransactions = nil }, changed},
		"timeline":              {func(m *protocol.SlotMessage) { m.TimelineID = 2 }, changed},
		"promoted":              {func(m *protocol.SlotMessage) { m.InRecovery = true }, changed},
		"postmaster start time": {func(m *protocol.SlotMessage) { m.PostmasterStartTime = 2 }, changed},
	} {
		a, b := base(), base()
		tt.change(b)
		if got := newsOf(a, b); got != tt.want {
			t.Errorf("%s: news = %v, want %v", name, got, tt.want)
		}
	}
}

// A look that costs little is followed by another one soon, one that costs much is
// not; and whatever looks cost, a change of position is told within PollInterval.
func TestPace(t *testing.T) {
	cfg := SlotSourceConfig{PollInterval: 80 * time.Millisecond, Heartbeat: time.Second}
	for took, want := range map[time.Duration]time.Duration{
		100 * time.Microsecond: 20 * time.Millisecond, time.Millisecond: 50 * time.Millisecond, time.Second: 80 * time.Millisecond,
	} {
		if got := cfg.pause(took); got != want {
			t.Errorf("after a look of %s the next one is in %s, want %s", took, got, want)
		}
	}
	for _, pause := range []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 80 * time.Millisecond} {
		for n, want := range map[news]time.Duration{noNews: cfg.Heartbeat, moved: cfg.PollInterval, changed: pause} {
			sent := pause // looks are taken pause after pause, the first that is due sends
			for !cfg.due(n, sent, pause) {
				sent += pause
			}
			if sent > want || n == moved && sent <= want-2*pause {
				t.Errorf("looks every %s: news %v are told after %s, want %s", pause, n, sent, want)
			}
		}
	}
}

// row makes the text columns of a row; "-" is NULL.
func row(values ...string) [][]byte {
	r := make([][]byte, len(values))
	for i, v := range values {
		if v != "-" {
			r[i] = []byte(v)
		}
	}
	return r
}

func TestCaptured(t *testing.T) {
	f, err := newSlotFilter(SlotFilters{})
	if err != nil {
		t.Fatal(err)
	}
	slot := func(name, kind, temporary, status, conflicting, reason string) [][]byte {
		return row(name, kind, "pgoutput", "db", temporary, "t", "-", "731", "0/1A", "-", status, "t", "0/1B", "t", "f",
			conflicting, reason, "5")
	}
	results := [][][][]byte{
		{row("7394857364758392847", "f", "16/B374D848", "12", "0000000A", "-", "7", "180004")},
		{
			slot("a", "logical", "f", "reserved", "-", "-"), slot("temp", "logical", "t", "reserved", "-", "-"),
			slot("b", "logical", "f", "lost", "-", "-"), slot("c", "logical", "f", "reserved", "t", "-"),
			slot("d", "logical", "f", "lost", "t", "rows_removed"), slot("p", "physical", "t", "reserved", "-", "-"),
		},
		{row("db", "gid", "9", "1")},
		{row("db", "8", "4711", "2")},
	}
	m, err := captured(results, f)
	if err != nil {
		t.Fatal(err)
	}
	if m.SystemIdentifier != 7394857364758392847 || m.CaptureLSN != 0x16B374D848 || m.TimelineID != 10 ||
		m.ServerVersionNum != 180004 || m.PostmasterStartTime != 7 || m.CaptureTime != 12 {
		t.Errorf("server: %+v", m)
	}
	var got []string
	for _, s := range m.Slots {
		got = append(got, s.Name+":"+s.InvalidationReason)
	}
	if want := "a: b:wal_removed c:conflicting d:rows_removed"; strings.Join(got, " ") != want {
		t.Errorf("slots %q, want %q", got, want)
	}
	if s := m.Slots[0]; s.ConfirmedFlushLSN != protocol.InvalidLSN || s.RestartLSN != 0x1A || s.CatalogXmin != 731 ||
		!s.TwoPhase || s.TwoPhaseAt != 0x1B || !s.Failover || s.Synced || !s.Active || s.InactiveSince != 5 {
		t.Errorf("slot %+v", s)
	}
	if len(m.PhysicalSlots) != 1 || !m.PhysicalSlots[0].Temporary || m.PhysicalSlots[0].CatalogXmin != 731 ||
		len(m.PreparedTransactions) != 1 || m.PreparedTransactions[0].GID != "gid" ||
		len(m.OpenTransactions) != 1 || m.OpenTransactions[0].PID != 4711 {
		t.Errorf("%+v", m)
	}

	results[0][0][2] = []byte("nonsense")
	if _, err := captured(results, f); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a bad position gives %v", err)
	}
	if _, err := captured(results[:3], f); err == nil {
		t.Error("three results are enough")
	}
}

// A configuration is refused for all its faults at once, and no password shows.
func TestConfigFaults(t *testing.T) {
	_, err := New(Config{
		Listen: []string{"nonsense"}, Upstream: "host=a port=x password=geheim", Mode: 9, ConnectTimeout: -1,
		Sink: &countingSink{},
	})
	for _, want := range []string{"nonsense", "upstream", "mode 9", "connect timeout", "sink"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "geheim") {
		t.Errorf("the password is in %q", err)
	}
	_, err = NewSlotSource(SlotSourceConfig{
		Conninfo: "port=x password=geheim", PollInterval: -1, SlotFilters: SlotFilters{Exclude: []string{"["}},
	})
	for _, want := range []string{"slots", "poll interval", "glob"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "geheim") {
		t.Errorf("the password is in %q", err)
	}
}

func TestParseUpstream(t *testing.T) {
	u, err := parseUpstream("host=a,/tmp,a port=1,2,1 connect_timeout=3 keepalives_idle=7 keepalives_count=4 " +
		"tcp_user_timeout=1500 sslmode=prefer")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(u.strings(), " "); got != "a:1 /tmp/.s.PGSQL.2" {
		t.Errorf("addresses %q", got)
	}
	if u.connectTimeout.Seconds() != 3 || u.keepalive.Idle.Seconds() != 7 || u.keepalive.Count != 4 ||
		!u.keepalive.Enable || u.userTimeout.Milliseconds() != 1500 {
		t.Errorf("%+v", u)
	}
	if _, err := parseUpstream("host=a keepalives_idle=soon"); err == nil {
		t.Error("keepalives_idle=soon is taken")
	}
}
