package relay

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/slotferry/slotferry/protocol"
)

// FuzzCapturedRows checks that whatever a server says of its slots is refused, or
// makes a slot message that comes out of its parts as it went in. Results stand
// behind each other with a form feed between them, rows with a line feed, columns with
// a tabulator; \N is NULL.
func FuzzCapturedRows(f *testing.F) {
	const first = "7300000000000000001\tf\t0/3000060\t849377595829730\t1\t\\N\t849377595829730\t180004\f"
	f.Add([]byte(first + "s\tlogical\tpgoutput\tpostgres\tf\tt\t\\N\t750\t0/3000028\t0/3000060\treserved\tt\t0/3000060\tt\tf\tf\t\\N\t849377595829730\n" +
		"p\tphysical\t\\N\t\\N\tf\tt\t751\t750\t0/3000060\t\\N\treserved\tf\t\\N\tf\tf\t\\N\t\\N\t\\N\fpostgres\tgid\t755\t849377595829730\f" +
		"postgres\t756\t4711\t849377595829730"))
	f.Add([]byte(first + "\f\f"))
	f.Add([]byte("4711\tstandby1\tstreaming\t0/3000060\ts\tphysical\t0/3000028\fs\t4712\t0/3000060"))
	filter, err := newSlotFilter(SlotFilters{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var results [][][][]byte
		for _, result := range bytes.Split(text, []byte("\f")) {
			var rows [][][]byte
			for _, line := range bytes.Split(result, []byte("\n")) {
				if len(line) > 0 {
					rows = append(rows, bytes.Split(line, []byte("\t")))
				}
			}
			for _, row := range rows {
				for i, column := range row {
					if string(column) == `\N` {
						row[i] = nil
					}
				}
			}
			results = append(results, rows)
		}
		_, _ = readWalsenders(results, false)
		m, err := captured(results, filter)
		if err != nil {
			return
		}
		parts, err := m.Parts(1 << 10)
		if err != nil {
			return // a name that no server can have
		}
		var again *protocol.SlotMessage
		var all protocol.Assembler
		for _, part := range parts {
			if again, err = all.Add(part); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v comes back as %+v", m, again)
		}
	})
}
