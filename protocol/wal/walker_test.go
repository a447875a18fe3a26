package wal

import (
	"fmt"
	"slices"
	"testing"

	"github.com/slotferry/slotferry/internal/walgen"
	"github.com/slotferry/slotferry/protocol"
)

// generated returns WAL of some pages, and where its records lie.
func generated() (*walgen.Writer, []protocol.LSN) {
	w := walgen.New(0x3000000)
	var at []protocol.LSN
	for i := range 400 {
		at = append(at, w.Record(10, byte(i%7)<<4, uint32(700+i), i*i%331))
	}
	at = append(at, w.Record(21, 0, 9, 50000)) // over many pages
	at = append(at, w.Record(0, 0x10, 0, 90))
	return w, at
}

// whole returns the records that are, and refuses what is damaged.
func whole(t *testing.T, records []Record) []protocol.LSN {
	t.Helper()
	var at []protocol.LSN
	for _, r := range records {
		if r.BadCRC || r.Abandoned {
			t.Fatalf("record is damaged: %+v", r)
		}
		if r.Left == 0 {
			at = append(at, r.LSN)
		}
	}
	return at
}

// TestPiecesDoNotMatter walks the same WAL in pieces of every size.
func TestPiecesDoNotMatter(t *testing.T) {
	w, want := generated()
	for _, size := range []int{1, 2, 3, 7, 8, 23, 24, 25, 39, 40, 41, 100, 8191, 8192, 8193, 50000, len(w.Bytes())} {
		var walker Walker
		var got []Record
		for i := 0; i < len(w.Bytes()); i += size {
			got = walker.Walk(w.Start()+protocol.LSN(i), w.Bytes()[i:min(i+size, len(w.Bytes()))], got)
		}
		if at := whole(t, got); !slices.Equal(at, want) {
			t.Fatalf("in pieces of %d: %d records, want %d", size, len(at), len(want))
		}
		if walker.Major() != 18 || walker.Timeline() != 1 || walker.Damage() != 0 {
			t.Errorf("in pieces of %d: major %d, timeline %d, damage %d", size, walker.Major(), walker.Timeline(), walker.Damage())
		}
	}
}

// TestBeginAnywhere begins within pages and records: where a record begins it is
// found, and else what comes behind the next page header.
func TestBeginAnywhere(t *testing.T) {
	w, all := generated()
	for _, from := range []int{1, 24, 39, 40, 44, 100, 4096, 8191, 8192, 8193, 8200, 8216, 9000, 16384, 60000} {
		var walker Walker
		got := whole(t, walker.Walk(w.Start()+protocol.LSN(from), w.Bytes()[from:], nil))
		page := protocol.LSN((from + 8191) / 8192 * 8192)
		if slices.Contains(all, w.Start()+protocol.LSN(from)) {
			page = protocol.LSN(from)
		}
		want := slices.DeleteFunc(slices.Clone(all), func(l protocol.LSN) bool { return l < w.Start()+page })
		if !slices.Equal(got, want) {
			t.Errorf("from byte %d: %d records, want %d", from, len(got), len(want))
		}
	}
}

// TestEndIsWhereTheNextRecordBegins holds xlogreader.c's NextRecPtr against the
// records themselves.
func TestEndIsWhereTheNextRecordBegins(t *testing.T) {
	w, _ := generated()
	var walker Walker
	records := slices.DeleteFunc(walker.Walk(w.Start(), w.Bytes(), nil), func(r Record) bool { return r.Left > 0 })
	for i, r := range records[:len(records)-1] {
		next := records[i+1].LSN
		if r.End != next && (r.End%8192 != 0 || next-r.End > longHeaderLen) {
			t.Errorf("record at %s ends at %s, the next one is at %s", r.LSN, r.End, next)
		}
	}
}

// TestDamageIsFound flips each byte of a page in turn.
func TestDamageIsFound(t *testing.T) {
	w, _ := generated()
	for i := 8192; i < 16384; i += 3 {
		b := slices.Clone(w.Bytes())
		b[i] ^= 0x40
		var walker Walker
		records := walker.Walk(w.Start(), b, nil)
		if walker.Damage() == 0 && !isPadding(records, w.Start()+protocol.LSN(i)) {
			t.Errorf("a flipped bit in byte %d is not noticed", i)
		}
	}
}

// isPadding reports whether a byte is in no record and in no field of a header:
// nothing says what it must be.
func isPadding(records []Record, lsn protocol.LSN) bool {
	at := lsn % 8192
	if at < shortHeaderLen {
		return at == 0 || at >= 4 && at < 8 || at >= 20 // a newer version's magic, timeline, padding
	}
	for _, r := range records {
		if lsn >= r.LSN && lsn < r.LSN+protocol.LSN(r.TotalLen) {
			return false
		}
	}
	return true
}

func TestUnknownKindsSayWhatTheyAre(t *testing.T) {
	for _, test := range []struct {
		r     Record
		major int
		want  string
	}{
		{Record{Rmid: 9, Info: 0x10}, 16, "Heap2 PRUNE"},
		{Record{Rmid: 9, Info: 0x10}, 17, "Heap2 PRUNE_ON_ACCESS"},
		{Record{Rmid: 1, Info: 0x80}, 17, "Transaction COMMIT"},
		{Record{Rmid: 0, Info: 0xC0}, 17, "XLOG UNKNOWN (c0)"},
		{Record{Rmid: 200, Info: 0x13}, 17, "custom200 UNKNOWN (10)"},
	} {
		if got := fmt.Sprintf("%s %s", test.r.Manager(), test.r.Kind(test.major)); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// FuzzWalk checks that no bytes make a Walker fail, and that pieces do not matter.
func FuzzWalk(f *testing.F) {
	w, _ := generated()
	f.Add(uint64(w.Start()), w.Bytes()[:9000], 100)
	f.Add(uint64(0x3002000), w.Bytes()[8192:20000], 8192)
	f.Fuzz(func(t *testing.T, start uint64, data []byte, cut int) {
		var one, two Walker
		a := one.Walk(protocol.LSN(start), data, nil)
		cut = min(max(cut, 0), len(data))
		b := two.Walk(protocol.LSN(start), data[:cut], nil)
		b = two.Walk(protocol.LSN(start)+protocol.LSN(cut), data[cut:], b)
		done := func(list []Record) (n int) {
			for _, r := range list {
				if r.Left == 0 && !r.Abandoned {
					n++
				}
			}
			return n
		}
		if done(a) != done(b) {
			t.Errorf("%d records in one piece, %d in two", done(a), done(b))
		}
	})
}
