package protocol

import "testing"

// FuzzBodies checks that no body of a message that is merely looked at, not forwarded
// by what it says, can do harm. The first byte says which it is taken for.
func FuzzBodies(f *testing.F) {
	decoders := []func([]byte) error{
		new(ParameterStatus).Decode, new(CopyResponse).Decode, new(RowDescription).Decode, new(DataRow).Decode,
		new(Authentication).Decode, new(SASLInitialResponse).Decode, new(BackendKeyData).Decode, new(BackupArchive).Decode,
		new(BackupProgress).Decode, new(CaptureResume).Decode, new(CaptureEnds).Decode, new(CaptureHeader).Decode,
		func(b []byte) error { _, err := new(CaptureRecord).Decode(b); return err },
		func(b []byte) error { _, err := DecodeString("Query", b); return err },
		func(b []byte) error { _, err := DecodeReadyForQuery(b); return err },
		func(b []byte) error { _, err := DecodeErrorFields(b); return err },
	}
	for kind := range decoders {
		f.Add(byte(kind), []byte("\x00\x00\x00\x0aSCRAM\x00\x00\x01\x00\x00"))
	}
	for _, frames := range readRecorded(f).frames {
		addSeeds(f, frames, func(seed []byte) {
			if len(seed) > FrameHeaderLen {
				f.Add(seed[0], seed[FrameHeaderLen:])
			}
		})
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		before := string(body)
		_ = decoders[int(kind)%len(decoders)](body)
		if string(body) != before {
			t.Error("a decoder has changed what it reads")
		}
	})
}
