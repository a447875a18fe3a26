package protocol

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimeGolden(t *testing.T) {
	const layout = "2006-01-02T15:04:05.000000Z07:00"
	for _, tt := range []struct {
		micros int64
		want   string
	}{
		{0, "2000-01-01T00:00:00.000000Z"},
		{-1, "1999-12-31T23:59:59.999999Z"},
		{1, "2000-01-01T00:00:00.000001Z"},
		{-epochUnixMicros, "1970-01-01T00:00:00.000000Z"},
		{820454400123456, "2025-12-31T00:00:00.123456Z"},
		{math.MaxInt64, "294277-01-09T04:00:54.775807Z"},
		{math.MinInt64, "-290278-12-22T19:59:05.224192Z"},
	} {
		got := Time(tt.micros)
		if got.Format(layout) != tt.want || got.Location() != time.UTC {
			t.Errorf("Time(%d) = %s, want %s", tt.micros, got.Format(layout), tt.want)
		}
		if back := Micros(got); back != tt.micros {
			t.Errorf("Micros(Time(%d)) = %d", tt.micros, back)
		}
	}
}

func TestTimeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64().Draw(t, "micros")
		if got := Micros(Time(want)); got != want {
			t.Fatalf("Micros(Time(%d)) = %d", want, got)
		}
	})
}
