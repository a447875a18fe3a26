package relay

import "encoding/binary"

// rowDescription is the head of a result with columns of text.
func rowDescription(names ...string) []byte {
	body := binary.BigEndian.AppendUint16(nil, uint16(len(names)))
	for _, name := range names {
		body = append(append(body, name...), 0)
		body = append(body, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0)
	}
	return append(binary.BigEndian.AppendUint32([]byte{'T'}, uint32(len(body)+4)), body...)
}

// dataRow is a row of text, in which "-" is NULL.
func dataRow(values ...string) []byte {
	body := binary.BigEndian.AppendUint16(nil, uint16(len(values)))
	for _, value := range values {
		if value == "-" {
			body = append(body, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		body = append(binary.BigEndian.AppendUint32(body, uint32(len(value))), value...)
	}
	return append(binary.BigEndian.AppendUint32([]byte{'D'}, uint32(len(body)+4)), body...)
}
