package protocol

import (
	"bytes"
	"errors"
	"testing"
)

func TestFrameHeader(t *testing.T) {
	for name, tt := range map[string]struct {
		in   []byte
		size int
		want error
	}{
		"CopyDone":          {AppendCopyDone(nil), 5, nil},
		"more behind":       {append(AppendReadyForQuery(nil), 1, 2, 3), 6, nil},
		"largest":           {[]byte{'d', 0x3f, 0xff, 0xff, 0xfe}, MaxFrame, nil},
		"too large":         {[]byte{'d', 0x3f, 0xff, 0xff, 0xff}, 0, ErrFrameLength},
		"SSH":               {[]byte("@RSYN"), 0, ErrFrameLength},
		"negative":          {[]byte{'d', 0xff, 0xff, 0xff, 0xff}, 0, ErrFrameLength},
		"length 0":          {[]byte{'d', 0, 0, 0, 0}, 0, ErrFrameLength},
		"length 3":          {[]byte{'d', 0, 0, 0, 3}, 0, ErrFrameLength},
		"half a header":     {[]byte{'d', 0, 0}, 0, ErrTruncated},
		"nothing":           {nil, 0, ErrTruncated},
		"CopyBothResponse":  {AppendCopyBothResponse(nil), 8, nil},
		"CommandComplete":   {AppendCommandComplete(nil, "COPY 0"), 12, nil},
		"CopyData":          {AppendCopyData(nil, []byte("abc")), 8, nil},
		"CopyData of bytes": {AppendCopyData([]byte{}, nil), 5, nil},
	} {
		var h FrameHeader
		err := h.Decode(tt.in)
		if !errors.Is(err, tt.want) || err == nil && h.Size() != tt.size {
			t.Errorf("%s: %+v, %v, want size %d, %v", name, h, err, tt.size, tt.want)
		}
	}
}

func TestErrorResponse(t *testing.T) {
	m := ErrorResponse{Severity: SeverityFatal, Code: "57P01", Message: "going\x00 away", Hint: "come again"}
	frame := m.Append(nil)
	var h FrameHeader
	if err := h.Decode(frame); err != nil || h.Size() != len(frame) {
		t.Fatalf("%d bytes, header %+v, %v", len(frame), h, err)
	}
	body := frame[FrameHeaderLen:]
	want := "SFATAL\x00VFATAL\x00C57P01\x00Mgoing away\x00Hcome again\x00\x00"
	if string(body) != want {
		t.Errorf("body %q, want %q", body, want)
	}
	var got ErrorResponse
	german := "SSCHWERWIEGEND\x00VFATAL\x00C28P01\x00Mnein\x00Fauth.c\x00\x00"
	if err := got.Decode([]byte(german)); err != nil || got != (ErrorResponse{"FATAL", "28P01", "nein", "", ""}) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := got.Decode([]byte("SFATAL")); !errors.Is(err, ErrTruncated) {
		t.Errorf("cut off: %v", err)
	}
}

func FuzzFrameHeader(f *testing.F) {
	f.Add([]byte("d\x00\x00\x00\x04"))
	for _, frames := range readRecorded(f).frames {
		addSeeds(f, frames, func(seed []byte) { f.Add(seed) })
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h FrameHeader
		if h.Decode(b) == nil && (h.Size() < FrameHeaderLen || h.Size() > MaxFrame) {
			t.Errorf("%x has size %d", b, h.Size())
		}
	})
}

func FuzzErrorResponse(f *testing.F) {
	f.Add([]byte("SFATAL\x00C57P01\x00Mx\x00\x00"))
	addSeeds(f, readRecorded(f).frames['E'], func(seed []byte) { f.Add(seed[FrameHeaderLen:]) })
	f.Fuzz(func(t *testing.T, body []byte) {
		var m, again ErrorResponse
		if m.Decode(body) != nil {
			return
		}
		frame := m.Append(nil)
		if err := again.Decode(frame[FrameHeaderLen:]); err != nil || again != m {
			t.Errorf("%+v comes back as %+v, %v", m, again, err)
		}
		if bytes.Count(frame, []byte{0}) == 0 {
			t.Error("no terminator")
		}
	})
}
