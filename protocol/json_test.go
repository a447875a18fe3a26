package protocol

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestJSONIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawMessage(t)
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got := &SlotMessage{Epoch: 5, Slots: []SlotState{{Name: "old"}}}
		if err := json.Unmarshal(text, got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}

		wantReport, gotReport := drawReport(t), &HelperReport{Standby: "old"}
		if text, err = json.Marshal(*wantReport); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, gotReport); err != nil || !reflect.DeepEqual(gotReport, wantReport) {
			t.Fatalf("got %+v, %v, want %+v", gotReport, err, wantReport)
		}
	})
}

func TestEmptyListsAreNotNull(t *testing.T) {
	for _, v := range []any{SlotMessage{}, &SlotMessage{}, HelperReport{}} {
		text, err := json.Marshal(v)
		if err != nil || !strings.Contains(string(text), `"slots":[]`) || strings.Contains(string(text), "null") {
			t.Errorf("Marshal(%T) = %s, %v, want empty lists", v, text, err)
		}
	}
}

// Encoding must not write through to the lists of the message.
func TestMarshalJSONLeavesTheMessageAlone(t *testing.T) {
	m := SlotMessage{Slots: []SlotState{{Name: "\xff"}}}
	text, err := json.Marshal(m)
	if err != nil || !strings.Contains(string(text), `"slot_name":"\\xff"`) || m.Slots[0].Name != "\xff" {
		t.Errorf("Marshal = %s, %v, name now %q", text, err, m.Slots[0].Name)
	}
}

func TestJSONIsStrict(t *testing.T) {
	for _, in := range []string{
		``, `null`, `[]`, `3`, `{} {}`, `{`,
		`{"epoch":1}`, `{"epoch":"-1"}`, `{"epoch":"x"}`, `{"sequence":-1}`, `{"timeline_id":4294967296}`,
		`{"unknown":1}`, `{"Sequence":1}`, `{"ſequence":1}`, `{"sequence":1,"sequence":2}`,
		`{"slots":[{"plugin":"a"}],"slots":[{"slot_name":"b"}]}`,
		`{"slots":[{"plugin":"a","plugin":"a"}]}`,
		`{"slots":[{"name":"a"}]}`,
		`{"slots":[{"restart_lsn":"0/1junk"}]}`,
		`{"slots":[{"restart_lsn":0}]}`,
		`{"slots":[{"readiness":"maybe"}]}`,
		`{"slots":[{"slot_name":"\\"}]}`,
		`{"slots":[{"slot_name":"\\x4"}]}`,
		`{"slots":[{"slot_name":"\\x41"}]}`,
		`{"slots":[{"slot_name":"\\xFF"}]}`,
		`{"slots":[{"slot_name":"\\xc3\\xa9"}]}`,
		`{"slots":[{"slot_name":"\\n"}]}`,
		"{\"slots\":[{\"slot_name\":\"\xff\"}]}",
		`{"physical_slots":[{"plugin":""}]}`,
		`{"prepared_transactions":[{"gid":"\\"}]}`,
	} {
		m := SlotMessage{Epoch: 7}
		if err := json.Unmarshal([]byte(in), &m); err == nil || m.Epoch != 7 {
			t.Errorf("Unmarshal(%s) = %v, epoch %d, want an error and an untouched message", in, err, m.Epoch)
		}
	}
	for _, in := range []string{`null`, `{"slots":[{"name":"a"}]}`, `{"standby":"\\"}`, `{"system_identifier":1}`} {
		var m HelperReport
		if err := json.Unmarshal([]byte(in), &m); err == nil {
			t.Errorf("Unmarshal(%s) of a helper report gave no error", in)
		}
	}
}

func TestTextEscapes(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "",
		"orders_sub":        "orders_sub",
		"é\x00\n\"\ufffd":   "é\x00\n\"\ufffd",
		`\`:                 `\\`,
		`a\x41`:             `a\\x41`,
		"\xff":              `\xff`,
		"caf\xe9":           `caf\xe9`,
		"\xf0\x9f\x92":      `\xf0\x9f\x92`,
		"\xed\xa0\x80":      `\xed\xa0\x80`, // a surrogate
		"\xff\\\xfe\\\\xfd": `\xff\\\xfe\\\\xfd`,
	} {
		got := text
		if err := escapeText("", 0, &got); err != nil || got != want {
			t.Errorf("escape %q = %q, %v, want %q", text, got, err, want)
		}
		if err := unescapeText("", 0, &got); err != nil || got != text {
			t.Errorf("unescape %q = %q, %v, want %q", want, got, err, text)
		}
	}
}

func FuzzSlotMessageJSON(f *testing.F) {
	text, err := json.Marshal(manySlots(2))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"slots":[{"slot_name":"\\xff\\\\"}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var m, again SlotMessage
		if json.Unmarshal(in, &m) != nil {
			return
		}
		out, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &again); err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("round trip = %+v, %v, want %+v", again, err, m)
		}
	})
}
