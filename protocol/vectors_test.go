package protocol

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the .hex files under testdata anew, from the .json files")

const (
	slotMessageVectors  = "../testdata/slotmessage"
	helperReportVectors = "../testdata/helperreport"
)

func TestSlotMessageVectors(t *testing.T) {
	for _, tt := range []struct {
		name    string
		maxBody int
	}{
		{"empty", 0},
		{"one-slot", 0},
		{"nulls", 0},
		{"standby-upstream", 0},
		{"physical-and-transactions", 0},
		{"odd-names", 0},
		{"several-parts", 256},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var want SlotMessage
			readJSON(t, filepath.Join(slotMessageVectors, tt.name+".json"), &want)
			bodies := mustParts(t, &want, tt.maxBody)
			compareHex(t, filepath.Join(slotMessageVectors, tt.name+".hex"), bodies)

			got, err := assemble(readHex(t, filepath.Join(slotMessageVectors, tt.name+".hex")))
			if err != nil || !reflect.DeepEqual(got, &want) {
				t.Errorf("decoded %+v, %v, want %+v", got, err, want)
			}
		})
	}
	t.Run("optional-fields", func(t *testing.T) {
		var want SlotMessage
		readJSON(t, filepath.Join(slotMessageVectors, "optional-fields.json"), &want)
		part := Part{Version: SlotMessageVersion, Epoch: want.Epoch, Sequence: want.Sequence, Count: 1}
		part.Chunk = fromTheFuture(&want)
		part.PayloadLen, part.PayloadCRC = uint32(len(part.Chunk)), checksum(part.Chunk)
		compareHex(t, filepath.Join(slotMessageVectors, "optional-fields.hex"), [][]byte{part.Append(nil)})

		got, err := assemble(readHex(t, filepath.Join(slotMessageVectors, "optional-fields.hex")))
		if err != nil || !reflect.DeepEqual(got, &want) {
			t.Errorf("decoded %+v, %v, want %+v", got, err, want)
		}
	})
}

// badVectors are bodies of which the last must be refused.
func badVectors(t *testing.T) []badVector {
	var m SlotMessage
	readJSON(t, filepath.Join(slotMessageVectors, "one-slot.json"), &m)
	one := mustParts(t, &m, 0)[0]
	three := mustParts(t, &m, 100)
	payload := m.appendPayload(nil)
	changed := func(src []byte, at int, v byte) []byte {
		src = bytes.Clone(src)
		src[at] = v
		return src
	}
	crcAt := partHeaderLen - 1 // last byte of the payload's
	return []badVector{
		{"magic", "ErrMagic", [][]byte{changed(one, 0, 's')}},
		{"version", "ErrVersion", [][]byte{sealed(changed(one, 9, 2)[:len(one)-crcLen])}},
		{"checksum", "ErrChecksum", [][]byte{changed(one, len(one)-crcLen-1, 9)}},
		{"cut-header", "ErrTruncated", [][]byte{one[:20]}},
		{"cut-chunk", "ErrChecksum", [][]byte{one[:len(one)-1]}},
		{"cut-payload", "ErrTruncated", [][]byte{inOnePart(payload[:len(payload)-1])}},
		{"trailing", "ErrTruncated", [][]byte{inOnePart(append(bytes.Clone(payload), 0))}},
		{"flag", "ErrInvalid", [][]byte{inOnePart(changed(payload, 24, 2))}},
		{"count", "ErrTruncated", [][]byte{inOnePart(changed(payload, 49, 0x80))}},
		{"payload-crc", "ErrChecksum", [][]byte{sealed(changed(one, crcAt, one[crcAt]^1)[:len(one)-crcLen])}},
		{"payload-length", "ErrTooLarge", [][]byte{sealed(changed(one, partPayloadLenAt, 1)[:len(one)-crcLen])}},
		{"lost-part", "ErrInvalid", [][]byte{three[0], three[2]}},
		{"repeated-part", "ErrInvalid", [][]byte{three[0], three[1], three[1]}},
	}
}

type badVector struct {
	name   string
	err    string
	bodies [][]byte
}

func TestBadSlotMessageVectors(t *testing.T) {
	for _, tt := range badVectors(t) {
		t.Run(tt.name, func(t *testing.T) {
			name := filepath.Join(slotMessageVectors, "bad-"+tt.name)
			compareHex(t, name+".hex", tt.bodies)
			compareFile(t, name+".txt", tt.err+"\n")

			bodies := readHex(t, name+".hex")
			var a Assembler
			for i, body := range bodies {
				m, err := a.Add(body)
				if m != nil {
					t.Errorf("part %d completes a message: %+v", i, m)
				}
				if got := sentinelName(err); i == len(bodies)-1 && got != tt.err {
					t.Errorf("part %d: %v, want %s", i, err, tt.err)
				}
			}
		})
	}
}

func TestHelperReportVectors(t *testing.T) {
	for _, name := range []string{"empty", "three-slots"} {
		t.Run(name, func(t *testing.T) {
			var want, got HelperReport
			readJSON(t, filepath.Join(helperReportVectors, name+".json"), &want)
			path := filepath.Join(helperReportVectors, name+".hex")
			whole, err := want.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			compareHex(t, path, [][]byte{whole})
			whole = readHex(t, path)[0]
			if err := got.Decode(whole[1:]); err != nil || whole[0] != MsgHelperReport || !reflect.DeepEqual(got, want) {
				t.Errorf("decoded %+v, %v, want %+v", got, err, want)
			}
		})
	}
	for name, want := range map[string]string{"checksum": "ErrChecksum", "version": "ErrVersion", "cut": "ErrTruncated"} {
		t.Run("bad-"+name, func(t *testing.T) {
			good := readHex(t, filepath.Join(helperReportVectors, "three-slots.hex"))[0]
			bad := map[string][]byte{
				"checksum": append(good[:len(good)-1:len(good)-1], good[len(good)-1]^1),
				"version":  []byte("f" + SlotMagic + "\x00\x02"),
				"cut":      good[:14],
			}[name]
			path := filepath.Join(helperReportVectors, "bad-"+name)
			compareHex(t, path+".hex", [][]byte{bad})
			compareFile(t, path+".txt", want+"\n")
			var m HelperReport
			if err := m.Decode(readHex(t, path+".hex")[0][1:]); sentinelName(err) != want {
				t.Errorf("Decode = %v, want %s", err, want)
			}
		})
	}
}

// sentinelName is how the .txt files name an error.
func sentinelName(err error) string {
	for name, sentinel := range map[string]error{
		"ErrTruncated": ErrTruncated, "ErrTrailing": ErrTrailing, "ErrInvalid": ErrInvalid, "ErrMagic": ErrMagic,
		"ErrVersion": ErrVersion, "ErrChecksum": ErrChecksum, "ErrTooLarge": ErrTooLarge,
	} {
		if errors.Is(err, sentinel) {
			return name
		}
	}
	return fmt.Sprint(err)
}

// readJSON reads one value, and with -rewrite writes it again in the form that
// the test asks for.
func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	want, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	compareFile(t, path, string(want)+"\n")
}

// readHex reads the bodies of a .hex file: a blank line stands between two,
// and a line that begins with # is for people.
func readHex(t *testing.T, path string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var bodies [][]byte
	for block := range strings.SplitSeq(string(text), "\n\n") {
		var digits strings.Builder
		for line := range strings.Lines(block) {
			if !strings.HasPrefix(line, "#") {
				digits.WriteString(strings.TrimSpace(line))
			}
		}
		body, err := hex.DecodeString(digits.String())
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		bodies = append(bodies, body)
	}
	return bodies
}

// compareHex compares bodies with what a .hex file has, or writes it.
func compareHex(t *testing.T, path string, bodies [][]byte) {
	t.Helper()
	var b strings.Builder
	for i, body := range bodies {
		if i > 0 {
			b.WriteByte('\n')
		}
		for len(body) > 0 {
			n := min(len(body), 32)
			fmt.Fprintf(&b, "%x\n", body[:n])
			body = body[n:]
		}
	}
	compareFile(t, path, b.String())
}

func compareFile(t *testing.T, path, want string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s has\n%s\nwant\n%s", path, got, want)
	}
}
