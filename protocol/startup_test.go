package protocol

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func startupPacket(version uint32, pairs ...string) []byte {
	m := StartupMessage{Version: version}
	for i := 0; i < len(pairs); i += 2 {
		m.Parameters = append(m.Parameters, StartupParameter{pairs[i], pairs[i+1]})
	}
	return m.Append(nil)
}

func TestStartupMessage(t *testing.T) {
	raw := []byte("\x00\x00\x00\x2e\x00\x03\x00\x00user\x00a\x00options\x00-c a=b\x00replication\x00true\x00\x00")
	raw[3] = byte(len(raw))
	var m StartupMessage
	if err := m.Decode(raw); err != nil {
		t.Fatal(err)
	}
	want := []StartupParameter{{"user", "a"}, {"options", "-c a=b"}, {"replication", "true"}}
	if m.Version != ProtocolVersion3 || !reflect.DeepEqual(m.Parameters, want) {
		t.Errorf("decoded %+v", m)
	}
	if got := m.Append(nil); !bytes.Equal(got, raw) {
		t.Errorf("Append gives %q, want %q", got, raw)
	}
}

// Taking the marker out leaves the rest in place: order, repeated names, empty
// values, bytes above 127 (F44).
func TestStartupRemoveKeepsTheRest(t *testing.T) {
	marked := startupPacket(ProtocolVersion3, "user", "j\xf6rg", OptInParameter, "1", "a.b", "", "user", "second",
		"_pq_.slotferry2", "x", OptInParameter, "0")
	want := startupPacket(ProtocolVersion3, "user", "j\xf6rg", "a.b", "", "user", "second", "_pq_.slotferry2", "x")
	var m StartupMessage
	if err := m.Decode(marked); err != nil {
		t.Fatal(err)
	}
	if value, ok := m.Remove(OptInParameter); !ok || value != "0" {
		t.Errorf("Remove = %q, %v, want the last value", value, ok)
	}
	if got := m.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	if _, ok := m.Remove(OptInParameter); ok {
		t.Error("the parameter is still there")
	}
	if v, _ := m.Get("user"); v != "second" {
		t.Errorf("user is %q, want the last one", v)
	}
}

func TestStartupMessageRefused(t *testing.T) {
	good := startupPacket(ProtocolVersion3, "user", "a")
	for name, tt := range map[string]struct {
		packet []byte
		want   error
	}{
		"empty":         {nil, ErrTruncated},
		"length":        {append([]byte{0, 0, 0, 9}, good[4:]...), ErrFrameLength},
		"huge length":   {append([]byte{0xff, 0xff, 0xff, 0xff}, good[4:]...), ErrFrameLength},
		"version 2":     {startupPacket(2<<16, "user", "a"), ErrVersion},
		"SSLRequest":    {AppendStartupRequest(nil, SSLRequestCode), ErrVersion},
		"no terminator": {[]byte("\x00\x00\x00\x0e\x00\x03\x00\x00user\x00a"), ErrTruncated},
		"bytes behind":  {[]byte("\x00\x00\x00\x0b\x00\x03\x00\x00\x00xy"), ErrTrailing},
	} {
		if err := new(StartupMessage).Decode(tt.packet); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func TestReplicationMode(t *testing.T) {
	for value, want := range map[string]ReplicationMode{
		"true": ReplicationPhysical, "TRUE": ReplicationPhysical, "t": ReplicationPhysical, "yes": ReplicationPhysical,
		"y": ReplicationPhysical, "on": ReplicationPhysical, "1": ReplicationPhysical, "database": ReplicationDatabase,
		"": ReplicationNone, "o": ReplicationNone, "off": ReplicationNone, "0": ReplicationNone,
		"Database": ReplicationNone, "trues": ReplicationNone, "false": ReplicationNone,
	} {
		m := StartupMessage{Parameters: []StartupParameter{{"replication", value}}}
		if got := m.Replication(); got != want {
			t.Errorf("replication=%q is %v, want %v", value, got, want)
		}
	}
	if got := new(StartupMessage).Replication(); got != ReplicationNone {
		t.Errorf("without the parameter: %v", got)
	}
}

func TestStartupCode(t *testing.T) {
	for _, tt := range []struct {
		packet []byte
		want   uint32
	}{
		{[]byte{0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f}, SSLRequestCode},
		{[]byte{0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30}, GSSENCRequestCode},
		{[]byte{0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e, 0, 0, 0, 1, 0, 0, 0, 2}, CancelRequestCode},
		{startupPacket(ProtocolVersion3|9999, "user", "a"), 0x0003270f},
	} {
		if got, err := StartupCode(tt.packet); err != nil || got != tt.want {
			t.Errorf("StartupCode(%x) = %#x, %v, want %#x", tt.packet, got, err, tt.want)
		}
	}
	if _, err := StartupCode([]byte{0, 0, 0, 9, 0, 3, 0, 0}); !errors.Is(err, ErrFrameLength) {
		t.Errorf("wrong length: %v", err)
	}
}

func TestCancelRequest(t *testing.T) {
	for _, n := range []int{4, 32, 256} {
		m := CancelRequest{PID: 77, Key: bytes.Repeat([]byte{7}, n)}
		raw := m.Append(nil)
		var got CancelRequest
		if err := got.Decode(raw); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("key of %d bytes: %+v, %v", n, got, err)
		}
	}
	for _, n := range []int{0, 3, 257} {
		m := CancelRequest{Key: make([]byte, n)}
		if err := new(CancelRequest).Decode(m.Append(nil)); !errors.Is(err, ErrInvalid) {
			t.Errorf("key of %d bytes: %v, want ErrInvalid", n, err)
		}
		if err := new(BackendKeyData).Decode(make([]byte, 4+n)); !errors.Is(err, ErrInvalid) {
			t.Errorf("BackendKeyData with %d bytes: %v, want ErrInvalid", n, err)
		}
	}
}

// The bytes of PostgreSQL 17 (F26), and what is left of them for a client that
// did not send the marker.
func TestNegotiateProtocolVersion(t *testing.T) {
	raw := []byte{'v', 0, 0, 0, 12, 0, 3, 0, 0, 0, 0, 0, 0}
	var m NegotiateProtocolVersion
	if err := m.Decode(raw[5:]); err != nil || m.Version != ProtocolVersion3 || len(m.Parameters) != 0 {
		t.Errorf("decoded %+v, %v", m, err)
	}
	if got := m.Append(nil); !bytes.Equal(got, raw) {
		t.Errorf("Append gives %x", got)
	}
	for name, tt := range map[string]struct {
		in            NegotiateProtocolVersion
		asked         uint32
		rest          []string
		found, needed bool
	}{
		"marker alone":     {NegotiateProtocolVersion{0x30000, []string{OptInParameter}}, 0x30000, nil, true, false},
		"minor alone":      {NegotiateProtocolVersion{0, []string{OptInParameter}}, 0x30000, nil, true, false},
		"version too":      {NegotiateProtocolVersion{0x30000, []string{OptInParameter}}, 0x30002, nil, true, true},
		"others too":       {NegotiateProtocolVersion{0x30000, []string{"_pq_.x", OptInParameter}}, 0x30000, []string{"_pq_.x"}, true, true},
		"without a marker": {NegotiateProtocolVersion{0x30000, []string{"_pq_.x"}}, 0x30000, []string{"_pq_.x"}, false, true},
	} {
		rest, found, needed := tt.in.Without(OptInParameter, tt.asked)
		if !reflect.DeepEqual(rest.Parameters, tt.rest) || found != tt.found || needed != tt.needed {
			t.Errorf("%s: %v, %v, %v", name, rest, found, needed)
		}
	}
	if err := m.Decode([]byte{0, 3, 0, 0, 0xff, 0xff, 0xff, 0xff, 0}); !errors.Is(err, ErrTruncated) {
		t.Errorf("count beyond the message: %v", err)
	}
}

func FuzzStartupMessage(f *testing.F) {
	f.Add(startupPacket(ProtocolVersion3, "user", "a", OptInParameter, "1"))
	f.Add([]byte{0, 0, 0, 9, 0, 3, 0, 0, 0})
	addSeeds(f, readRecorded(f).startup, func(seed []byte) { f.Add(seed) })
	f.Fuzz(func(t *testing.T, packet []byte) {
		_, _ = StartupCode(packet)
		var m StartupMessage
		if m.Decode(packet) != nil {
			return
		}
		if got := m.Append(nil); !bytes.Equal(got, packet) {
			t.Errorf("%x becomes %x", packet, got)
		}
		m.Remove(OptInParameter)
		m.Replication()
		var again StartupMessage
		if err := again.Decode(m.Append(nil)); err != nil {
			t.Error(err)
		}
	})
}

func FuzzCancelRequest(f *testing.F) {
	f.Add([]byte{0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e, 0, 0, 0, 1, 0, 0, 0, 2})
	f.Fuzz(func(t *testing.T, packet []byte) {
		_ = new(BackendKeyData).Decode(packet)
		var m CancelRequest
		if m.Decode(packet) == nil && !bytes.Equal(m.Append(nil), packet) {
			t.Errorf("%x does not come back", packet)
		}
	})
}

func FuzzNegotiateProtocolVersion(f *testing.F) {
	f.Add([]byte{0, 3, 0, 0, 0, 0, 0, 1, 'x', 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		var m NegotiateProtocolVersion
		if m.Decode(body) == nil && !bytes.Equal(m.Append(nil)[5:], body) {
			t.Errorf("%x does not come back", body)
		}
	})
}
