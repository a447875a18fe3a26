package protocol

import (
	"bytes"
	"testing"
)

// FuzzLogicalMessage checks that no bytes make the decoder fail, and that it
// never takes more than there is.
func FuzzLogicalMessage(f *testing.F) {
	f.Add([]byte("R\x00\x00\x40\x01public\x00t\x00d\x00\x01\x01id\x00\x00\x00\x00\x17\xff\xff\xff\xff"), false)
	f.Add([]byte("U\x00\x00\x40\x01K\x00\x02t\x00\x00\x00\x011nN\x00\x02t\x00\x00\x00\x012u"), false)
	f.Add([]byte("T\x00\x00\x02\xee\x00\x00\x00\x01\x01\x00\x00\x40\x01"), true)
	f.Add([]byte("M\x01\x00\x00\x00\x00\x00\x00\x00\x01p\x00\x00\x00\x00\x02hi"), false)
	f.Fuzz(func(t *testing.T, data []byte, streaming bool) {
		var m LogicalMessage
		before := bytes.Clone(data)
		if m.Decode(data, streaming) == nil && m.MessageName() == "" {
			t.Errorf("a message without a name: %+v", m)
		}
		if !bytes.Equal(before, data) {
			t.Error("the input was changed")
		}
	})
}
