// Package human writes amounts of WAL and time for people.
package human

import (
	"fmt"
	"time"
)

// Bytes writes a size in the unit that leaves at most four digits, as
// pg_size_pretty does: 512 B, 16 MB.
func Bytes(n uint64) string {
	const step = 1 << 10
	if n < 10*step {
		return fmt.Sprintf("%d B", n)
	}
	units := []string{"kB", "MB", "GB", "TB", "PB", "EB"}
	v := float64(n) / step
	for v >= 10*step && len(units) > 1 {
		v /= step
		units = units[1:]
	}
	return fmt.Sprintf("%.0f %s", v, units[0])
}

// Duration writes a time span by its two largest units: 350ms, 12s, 3m20s,
// 2h5m, 4d3h. A negative one is 0s.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}
