package protocol

import (
	"bytes"
	"errors"
	"testing"
)

func TestCaptureRecord(t *testing.T) {
	want := CaptureRecord{Kind: CaptureUpstream, Time: -1, Connection: 7, Payload: []byte("payload")}
	b := want.Append(nil)
	var got CaptureRecord
	size, err := got.Decode(append(bytes.Clone(b), "the next one"...))
	if err != nil || size != len(b) || got.Kind != want.Kind || got.Time != want.Time || got.Connection != want.Connection ||
		string(got.Payload) != string(want.Payload) {
		t.Fatalf("got %+v, %d, %v", got, size, err)
	}
	for n := range b {
		if _, err := got.Decode(b[:n]); !errors.Is(err, ErrTruncated) {
			t.Errorf("%d bytes of a record: %v, want ErrTruncated", n, err)
		}
		bad := bytes.Clone(b)
		bad[n] ^= 1
		if _, err := got.Decode(bad); err == nil {
			t.Errorf("a flipped bit in byte %d is not noticed", n)
		}
	}
}

func TestCaptureHeader(t *testing.T) {
	want := CaptureHeader{Flags: CaptureHasSecrets, Created: 12}
	b := want.Append(nil)
	var got CaptureHeader
	if err := got.Decode(b); err != nil || got != want || len(b) != CaptureHeaderLen {
		t.Fatalf("got %+v, %v", got, err)
	}
	for n := range b {
		if err := got.Decode(b[:n]); err == nil {
			t.Errorf("%d bytes of a header are taken", n)
		}
	}
}

func TestCaptureResume(t *testing.T) {
	want := CaptureResume{Phase: 2, Copy: 1, DownstreamLeft: 3, UpstreamLeft: 4, Command: "START_REPLICATION 0/1"}
	var got CaptureResume
	if err := got.Decode(want.Append(nil)); err != nil || got != want {
		t.Fatalf("got %+v, %v", got, err)
	}
}
