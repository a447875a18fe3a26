package protocol

import (
	"bytes"
	"testing"
)

func TestAuthenticationSASL(t *testing.T) {
	raw := []byte("R\x00\x00\x00\x2a\x00\x00\x00\x0aSCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00")
	var m Authentication
	if err := m.Decode(raw[FrameHeaderLen:]); err != nil || m.Request != AuthSASL {
		t.Fatalf("decoded %+v, %v", m, err)
	}
	if got := AppendAuthenticationSASL(nil, m.Mechanisms); !bytes.Equal(got, raw) {
		t.Errorf("Append gives %q, want %q", got, raw)
	}
}

func TestBindsChannel(t *testing.T) {
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
}
