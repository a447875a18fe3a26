package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// MarshalJSON prints the message so that UnmarshalJSON gives back the same one,
// for every message that can come off the wire. An empty list is [], never
// null. In a text, a byte that is not part of valid UTF-8 stands as \x and two
// hexadecimal digits, and a backslash stands doubled.
func (m SlotMessage) MarshalJSON() ([]byte, error) {
	type fields SlotMessage // without this method
	m.Slots = printable(m.Slots)
	m.PhysicalSlots = printable(m.PhysicalSlots)
	m.OpenTransactions = printable(m.OpenTransactions)
	m.PreparedTransactions = printable(m.PreparedTransactions)
	if err := m.eachText(escapeText); err != nil {
		return nil, err
	}
	return json.Marshal(fields(m))
}

// UnmarshalJSON reads what MarshalJSON wrote, and replaces the whole message. A
// field that is not named is zero, which is NULL; one that this version does
// not know is refused.
func (m *SlotMessage) UnmarshalJSON(data []byte) error {
	type fields SlotMessage
	var f fields
	if err := unmarshalStrict(data, &f); err != nil {
		return fmt.Errorf("decode slot message from JSON: %w", err)
	}
	v := SlotMessage(f)
	v.Slots = decoded(v.Slots)
	v.PhysicalSlots = decoded(v.PhysicalSlots)
	v.OpenTransactions = decoded(v.OpenTransactions)
	v.PreparedTransactions = decoded(v.PreparedTransactions)
	if err := v.eachText(unescapeText); err != nil {
		return fmt.Errorf("decode slot message from JSON: %w", err)
	}
	*m = v
	return nil
}

// MarshalJSON prints the report by the rules of SlotMessage.MarshalJSON.
func (m HelperReport) MarshalJSON() ([]byte, error) {
	type fields HelperReport
	m.Slots = printable(m.Slots)
	if err := m.eachText(escapeText); err != nil {
		return nil, err
	}
	return json.Marshal(fields(m))
}

// UnmarshalJSON reads what MarshalJSON wrote, by the rules of
// SlotMessage.UnmarshalJSON.
func (m *HelperReport) UnmarshalJSON(data []byte) error {
	type fields HelperReport
	var f fields
	if err := unmarshalStrict(data, &f); err != nil {
		return fmt.Errorf("decode helper report from JSON: %w", err)
	}
	v := HelperReport(f)
	v.Slots = decoded(v.Slots)
	if err := v.eachText(unescapeText); err != nil {
		return fmt.Errorf("decode helper report from JSON: %w", err)
	}
	*m = v
	return nil
}

// printable returns a copy of a list that may be changed, and is not nil.
func printable[T any](list []T) []T { return append(make([]T, 0, len(list)), list...) }

// decoded returns a list as the wire decoder would: nil when it is empty.
func decoded[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return slices.Clip(list)
}

// unmarshalStrict refuses what encoding/json lets pass: unknown fields, bytes
// that are not UTF-8, names in another case and names that come twice.
func unmarshalStrict(data []byte, v any) error {
	if !utf8.Valid(data) || bytes.Equal(data, []byte("null")) {
		return ErrInvalid
	}
	if err := checkNames(json.NewDecoder(bytes.NewReader(data))); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// checkNames reads one value, and refuses a name that is not in lower case or
// that its object had before.
func checkNames(d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	opened, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for d.More() {
		if opened == '{' {
			if token, err = d.Token(); err != nil {
				return err
			}
			name := fmt.Sprint(token)
			if seen[name] || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
				return fmt.Errorf("field %q: %w", name, ErrInvalid)
			}
			seen[name] = true
		}
		if err := checkNames(d); err != nil {
			return err
		}
	}
	_, err = d.Token() // what closes it
	return err
}
