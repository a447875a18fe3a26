package relay

import "fmt"

// UnmarshalText reads what MarshalText wrote.
func (m *Mode) UnmarshalText(text []byte) error {
	for mode := ModePlain; mode <= ModeStrip; mode++ {
		if string(text) == mode.String() {
			*m = mode
			return nil
		}
	}
	return fmt.Errorf("unknown mode %q", text)
}
