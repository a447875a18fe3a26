package protocol

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func TestAuthenticationSASL(t *testing.T) {
	raw := []byte("R\x00\x00\x00\x2a\x00\x00\x00\x0aSCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00")
	var m AuthenticationSASL
	if err := m.Decode(raw[5:]); err != nil || !reflect.DeepEqual(m.Mechanisms, []string{SCRAMPlus, "SCRAM-SHA-256"}) {
		t.Fatalf("decoded %+v, %v", m, err)
	}
	if got := m.Append(nil); !bytes.Equal(got, raw) {
		t.Errorf("Append gives %q, want %q", got, raw)
	}
	rest, found := m.Without(SCRAMPlus)
	if want := []byte("R\x00\x00\x00\x17\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00"); !found || !bytes.Equal(rest.Append(nil), want) {
		t.Errorf("without: %q, %v", rest.Append(nil), found)
	}
	if _, found := rest.Without(SCRAMPlus); found {
		t.Error("it is still there")
	}
	for name, tt := range map[string]struct {
		body string
		want error
	}{
		"ok":            {"\x00\x00\x00\x00", ErrType},
		"cut off":       {"\x00\x00\x00\x0aSCRAM", ErrTruncated},
		"no terminator": {"\x00\x00\x00\x0aSCRAM\x00", ErrTruncated},
		"trailing":      {"\x00\x00\x00\x0a\x00x", ErrTrailing},
	} {
		if err := m.Decode([]byte(tt.body)); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func TestSASLInitialResponse(t *testing.T) {
	for text, binds := range map[string]bool{
		"SCRAM-SHA-256\x00\x00\x00\x00\x08n,,n=,r=":    false,
		"SCRAM-SHA-256\x00\x00\x00\x00\x08y,,n=,r=":    true,
		"SCRAM-SHA-256-PLUS\x00\x00\x00\x00\x06p=tls-": true,
		"OAUTHBEARER\x00\xff\xff\xff\xff":              false,
		"OAUTHBEARER\x00\x00\x00\x00\x00":              false,
	} {
		var m SASLInitialResponse
		if err := m.Decode([]byte(text)); err != nil || m.BindsChannel() != binds {
			t.Errorf("%q: %+v, %v, binds %v", text, m, err, m.BindsChannel())
		}
	}
	for text, want := range map[string]error{
		"":                                   ErrTruncated,
		"SCRAM-SHA-256\x00\x00\x00\x00\x08n": ErrTruncated,
		"SCRAM-SHA-256\x00\xff\xff\xff\xfe":  ErrTruncated,
		"SCRAM-SHA-256\x00\xff\xff\xff\xffn": ErrTrailing,
	} {
		if err := new(SASLInitialResponse).Decode([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}

func FuzzAuthenticationSASL(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var m AuthenticationSASL
		if m.Decode(body) == nil && !bytes.Equal(m.Append(nil)[FrameHeaderLen:], body) {
			t.Errorf("%q becomes %q", body, m.Append(nil))
		}
		_ = new(SASLInitialResponse).Decode(body)
	})
}
