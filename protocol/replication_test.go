package protocol

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// replicationMessage is what the four messages of PostgreSQL have in common.
type replicationMessage interface {
	Decode(src []byte) error
	Append(dst []byte) []byte
}

// replicationMessages has golden bytes for each message, written by hand from
// the layout in protocol.sgml.
var replicationMessages = []struct {
	name   string
	m      replicationMessage
	empty  func() replicationMessage
	wire   string
	exact  bool // no byte may follow
	flagAt int  // offset of a Byte1 that must be 0 or 1; 0 for none
}{
	{
		name:  "XLogData",
		m:     &XLogData{DataStart: 0x203F42B70, WALEnd: 0x203F42B74, SendTime: -1, Data: []byte{1, 2, 3, 4}},
		empty: func() replicationMessage { return new(XLogData) },
		wire: "w" + "\x00\x00\x00\x02\x03\xf4\x2b\x70" + "\x00\x00\x00\x02\x03\xf4\x2b\x74" +
			"\xff\xff\xff\xff\xff\xff\xff\xff" + "\x01\x02\x03\x04",
	},
	{
		name:  "PrimaryKeepalive",
		m:     &PrimaryKeepalive{WALEnd: math.MaxUint64, SendTime: 1, ReplyRequested: true},
		empty: func() replicationMessage { return new(PrimaryKeepalive) },
		wire:  "k" + "\xff\xff\xff\xff\xff\xff\xff\xff" + "\x00\x00\x00\x00\x00\x00\x00\x01" + "\x01",
		exact: true, flagAt: 17,
	},
	{
		name: "StandbyStatusUpdate",
		m: &StandbyStatusUpdate{
			Write: 3, Flush: 2, Apply: 1, SendTime: math.MinInt64, ReplyRequested: false,
		},
		empty: func() replicationMessage { return new(StandbyStatusUpdate) },
		wire: "r" + "\x00\x00\x00\x00\x00\x00\x00\x03" + "\x00\x00\x00\x00\x00\x00\x00\x02" +
			"\x00\x00\x00\x00\x00\x00\x00\x01" + "\x80\x00\x00\x00\x00\x00\x00\x00" + "\x00",
		exact: true, flagAt: 33,
	},
	{
		name:  "HotStandbyFeedback",
		m:     &HotStandbyFeedback{SendTime: 256, Xmin: 750, XminEpoch: 1, CatalogXmin: 749, CatalogXminEpoch: 2},
		empty: func() replicationMessage { return new(HotStandbyFeedback) },
		wire: "h" + "\x00\x00\x00\x00\x00\x00\x01\x00" + "\x00\x00\x02\xee" + "\x00\x00\x00\x01" +
			"\x00\x00\x02\xed" + "\x00\x00\x00\x02",
		exact: true,
	},
}

func TestReplicationMessages(t *testing.T) {
	for _, tt := range replicationMessages {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(tt.m.Append([]byte("before"))); got != "before"+tt.wire {
				t.Errorf("Append = % x, want % x", got, tt.wire)
			}
			m := tt.empty()
			if err := m.Decode([]byte(tt.wire[1:])); err != nil || !reflect.DeepEqual(m, tt.m) {
				t.Errorf("Decode = %+v, %v, want %+v", m, err, tt.m)
			}
		})
	}
}

func TestReplicationMessagesAreStrict(t *testing.T) {
	for _, tt := range replicationMessages {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(tt.wire[1:])
			least := len(body)
			if !tt.exact {
				least = XLogDataHeaderLen - 1
			}
			for n := range least {
				offsetOf(t, tt.empty().Decode(body[:n]), ErrTruncated)
			}
			if tt.exact {
				if got := offsetOf(t, tt.empty().Decode(append(body, 0)), ErrTrailing); got != len(body) {
					t.Errorf("offset of a trailing byte = %d, want %d", got, len(body))
				}
			}
			if tt.flagAt > 0 {
				bad := bytes.Clone(body)
				bad[tt.flagAt-1] = 2
				if got := offsetOf(t, tt.empty().Decode(bad), ErrInvalid); got != tt.flagAt-1 {
					t.Errorf("offset of a flag of 2 = %d, want %d", got, tt.flagAt-1)
				}
			}
		})
	}
}

func TestReplicationMessagesDoNotAllocate(t *testing.T) {
	for _, tt := range replicationMessages {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(tt.wire[1:])
			m := tt.empty()
			if n := testing.AllocsPerRun(100, func() {
				if m.Decode(body) != nil {
					t.Fail()
				}
			}); n != 0 {
				t.Errorf("Decode makes %v allocations, want 0", n)
			}
			buf := make([]byte, 0, 256)
			if n := testing.AllocsPerRun(100, func() { m.Append(buf) }); n != 0 {
				t.Errorf("Append makes %v allocations, want 0", n)
			}
		})
	}
}

// Data is not copied, and cannot be appended to over the frame that follows.
func TestXLogDataAliasesItsSource(t *testing.T) {
	src := append(bytes.Repeat([]byte{0}, 24), 5, 6, 7)
	var m XLogData
	if err := m.Decode(src[:26]); err != nil {
		t.Fatal(err)
	}
	src[24] = 9
	if m.Data[0] != 9 {
		t.Error("Data is a copy")
	}
	_ = append(m.Data, 1)
	if src[26] != 7 {
		t.Error("append to Data wrote into the next message")
	}
}

func TestReplicationMessagesRoundTrip(t *testing.T) {
	lsn := rapid.Map(rapid.Uint64(), func(v uint64) LSN { return LSN(v) })
	rapid.Check(t, func(t *rapid.T) {
		for _, want := range []replicationMessage{
			&XLogData{
				lsn.Draw(t, "start"), lsn.Draw(t, "end"), rapid.Int64().Draw(t, "time"),
				rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "data"),
			},
			&PrimaryKeepalive{lsn.Draw(t, "end"), rapid.Int64().Draw(t, "time"), rapid.Bool().Draw(t, "reply")},
			&StandbyStatusUpdate{
				lsn.Draw(t, "write"), lsn.Draw(t, "flush"), lsn.Draw(t, "apply"), rapid.Int64().Draw(t, "time"),
				rapid.Bool().Draw(t, "reply"),
			},
			&HotStandbyFeedback{
				rapid.Int64().Draw(t, "time"), rapid.Uint32().Draw(t, "xmin"), rapid.Uint32().Draw(t, "epoch"),
				rapid.Uint32().Draw(t, "catalog_xmin"), rapid.Uint32().Draw(t, "catalog epoch"),
			},
		} {
			got := reflect.New(reflect.TypeOf(want).Elem()).Interface().(replicationMessage)
			if err := got.Decode(want.Append(nil)[1:]); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("Decode(Append(%+v)) = %+v, %v", want, got, err)
			}
		}
	})
}

// fuzzReplication checks that decoding never panics, and that what decodes is
// encoded to the same bytes.
func fuzzReplication(f *testing.F, kind byte, empty func() replicationMessage) {
	for _, tt := range replicationMessages {
		f.Add([]byte(tt.wire[1:]))
	}
	f.Add([]byte{})
	r := readRecorded(f)
	addSeeds(f, r.copied[kind], func(seed []byte) { f.Add(seed) })
	f.Fuzz(func(t *testing.T, src []byte) {
		m := empty()
		if err := m.Decode(src); err != nil {
			var e *MessageError
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(src) {
				t.Fatalf("Decode(% x) = %v", src, err)
			}
			return
		}
		if again := m.Append(nil)[1:]; !bytes.Equal(again, src) {
			t.Fatalf("Append(Decode(% x)) = % x", src, again)
		}
	})
}

func FuzzXLogData(f *testing.F) {
	fuzzReplication(f, MsgXLogData, func() replicationMessage { return new(XLogData) })
}

func FuzzPrimaryKeepalive(f *testing.F) {
	fuzzReplication(f, MsgPrimaryKeepalive, func() replicationMessage { return new(PrimaryKeepalive) })
}

func FuzzStandbyStatusUpdate(f *testing.F) {
	fuzzReplication(f, MsgStandbyStatusUpdate, func() replicationMessage { return new(StandbyStatusUpdate) })
}

func FuzzHotStandbyFeedback(f *testing.F) {
	fuzzReplication(f, MsgHotStandbyFeedback, func() replicationMessage { return new(HotStandbyFeedback) })
}
