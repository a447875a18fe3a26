package relay

import (
	"strings"
	"testing"

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

// What moves all the time is no news; what someone decides by is.
func TestSameState(t *testing.T) {
	base := func() *protocol.SlotMessage {
		return &protocol.SlotMessage{
			Epoch: 1, Sequence: 1, CaptureLSN: 1, CaptureTime: 1,
			Slots:                []protocol.SlotState{{Name: "a", ConfirmedFlushLSN: 5}},
			PhysicalSlots:        []protocol.PhysicalSlot{{Name: "p", RestartLSN: 5, CatalogXmin: 7}},
			OpenTransactions:     []protocol.OpenTransaction{{Xid: 1}},
			PreparedTransactions: []protocol.PreparedTransaction{{Xid: 1}},
		}
	}
	for name, tt := range map[string]struct {
		change func(*protocol.SlotMessage)
		same   bool
	}{
		"nothing":               {func(*protocol.SlotMessage) {}, true},
		"position":              {func(m *protocol.SlotMessage) { m.CaptureLSN, m.CaptureTime, m.Sequence = 9, 9, 9 }, true},
		"open transaction":      {func(m *protocol.SlotMessage) { m.OpenTransactions = nil }, true},
		"flushed by a standby":  {func(m *protocol.SlotMessage) { m.PhysicalSlots[0].RestartLSN = 9 }, true},
		"protection":            {func(m *protocol.SlotMessage) { m.PhysicalSlots[0].CatalogXmin = 0 }, false},
		"confirmed_flush":       {func(m *protocol.SlotMessage) { m.Slots[0].ConfirmedFlushLSN = 6 }, false},
		"readiness":             {func(m *protocol.SlotMessage) { m.Slots[0].Readiness = protocol.ReadinessReady }, false},
		"a slot gone":           {func(m *protocol.SlotMessage) { m.Slots = nil }, false},
		"prepared transaction":  {func(m *protocol.SlotMessage) { m.PreparedTransactions = nil }, false},
		"timeline":              {func(m *protocol.SlotMessage) { m.TimelineID = 2 }, false},
		"promoted":              {func(m *protocol.SlotMessage) { m.InRecovery = true }, false},
		"postmaster start time": {func(m *protocol.SlotMessage) { m.PostmasterStartTime = 2 }, false},
	} {
		a, b := base(), base()
		tt.change(b)
		if got := sameState(a, b); got != tt.same {
			t.Errorf("%s: same = %v, want %v", name, got, tt.same)
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
