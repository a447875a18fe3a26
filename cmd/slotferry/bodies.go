package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/slotferry/slotferry/protocol"
)

// The ways to write the bodies of messages.
const (
	formatHex    = "hex"
	formatBase64 = "base64"
	formatRaw    = "raw"
)

const hexLine = 32 // bytes a line, as the files under testdata have it

func (s *settings) bodyFormat() string {
	format := s.c.String("format")
	switch format {
	case formatHex, formatBase64, formatRaw:
	default:
		s.problem("format", "", fmt.Errorf("%q is not hex, base64 or raw", format))
	}
	return format
}

// encodeMessage makes the bodies of a message in JSON.
func encodeMessage(input []byte, partSize int, report bool) ([][]byte, error) {
	if report {
		var r protocol.HelperReport
		if err := json.Unmarshal(input, &r); err != nil {
			return nil, err
		}
		body, err := r.Append(nil)
		return [][]byte{body}, err
	}
	var m protocol.SlotMessage
	if err := json.Unmarshal(input, &m); err != nil {
		return nil, err
	}
	return m.Parts(partSize)
}

// decodeMessages prints every whole message that the bodies make. It goes on
// behind a damaged one, as a helper does.
func decodeMessages(w io.Writer, bodies [][]byte) error {
	var parts protocol.Assembler
	var problems []error
	whole := true // nothing is left in parts
	for i, body := range bodies {
		message, err := decodeBody(&parts, body)
		if err != nil {
			problems = append(problems, fmt.Errorf("body %d: %w", i+1, err))
			whole = true
			continue
		}
		if whole = message != nil; !whole {
			continue
		}
		out, err := json.MarshalIndent(message, "", "  ")
		if err != nil {
			return err
		}
		if _, err := w.Write(append(out, '\n')); err != nil {
			return err
		}
	}
	switch {
	case len(bodies) == 0:
		problems = append(problems, errors.New("no body to decode"))
	case !whole:
		problems = append(problems, errors.New("the last message is not whole: parts of it are missing"))
	}
	return errors.Join(problems...)
}

// decodeBody returns a message for people when the body completes one.
func decodeBody(parts *protocol.Assembler, body []byte) (any, error) {
	if len(body) > 0 && body[0] == protocol.MsgHelperReport {
		var r protocol.HelperReport
		if err := r.Decode(body[1:]); err != nil {
			return nil, err
		}
		return &r, nil
	}
	m, err := parts.Add(body)
	if m == nil {
		return nil, err // not a nil pointer in an interface
	}
	return m, err
}

// readBodies takes input apart into bodies.
func readBodies(format string, input []byte) ([][]byte, error) {
	switch format {
	case formatRaw:
		if len(input) == 0 {
			return nil, nil
		}
		return [][]byte{input}, nil
	case formatBase64:
		return eachBlock(strings.Split(string(input), "\n"), base64.StdEncoding.DecodeString)
	}
	text := strings.ReplaceAll(string(input), "\r\n", "\n")
	return eachBlock(strings.Split(text, "\n\n"), func(block string) ([]byte, error) {
		return hex.DecodeString(strings.Join(strings.Fields(block), ""))
	})
}

// eachBlock decodes every block of text that is not blank.
func eachBlock(blocks []string, decode func(string) ([]byte, error)) ([][]byte, error) {
	var bodies [][]byte
	for _, block := range blocks {
		block = strings.TrimSpace(block)
		if block == "" {
			continue
		}
		body, err := decode(block)
		if err != nil {
			return nil, fmt.Errorf("read body %d: %w", len(bodies)+1, err)
		}
		bodies = append(bodies, body)
	}
	return bodies, nil
}

// writeBodies is the inverse of readBodies.
func writeBodies(w io.Writer, format string, bodies [][]byte) error {
	var out bytes.Buffer
	if format == formatRaw && len(bodies) != 1 {
		return withHint(fmt.Errorf("the message has %d parts, raw has room for one", len(bodies)),
			"Use --format hex or base64, or a larger --part-size.")
	}
	for i, body := range bodies {
		switch format {
		case formatRaw:
			out.Write(body)
		case formatBase64:
			out.WriteString(base64.StdEncoding.EncodeToString(body) + "\n")
		default:
			if i > 0 {
				out.WriteByte('\n')
			}
			for rest := body; len(rest) > 0; {
				n := min(hexLine, len(rest))
				fmt.Fprintf(&out, "%x\n", rest[:n])
				rest = rest[n:]
			}
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}
