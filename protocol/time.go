package protocol

import "time"

// epochUnixMicros is 2000-01-01 00:00:00 UTC in Unix microseconds, PostgreSQL's
// epoch (POSTGRES_EPOCH_JDATE, timestamp.h).
const epochUnixMicros = 946684800000000

// Time converts a wire timestamp, microseconds since 2000-01-01 UTC, to a
// time.Time in UTC. Every int64 has an answer; none panics.
func Time(micros int64) time.Time {
	sec := micros / 1e6
	rem := micros % 1e6
	return time.Unix(epochUnixMicros/1e6+sec, rem*1000).UTC()
}

// Micros converts a time.Time to a wire timestamp, microseconds since
// 2000-01-01 UTC.
func Micros(t time.Time) int64 { return t.UnixMicro() - epochUnixMicros }
