package slotcatalog

import "testing"

// FuzzParse checks that a row of pg_replication_slots is refused, or read with the
// name and the positions that stand in it.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"slot_name":"s","slot_type":"logical","plugin":"pgoutput","database":"postgres","temporary":false,"active":true,` +
		`"active_pid":4711,"xmin":null,"catalog_xmin":"750","restart_lsn":"0/3000028","confirmed_flush_lsn":"0/3000060",` +
		`"wal_status":"reserved","two_phase":false,"conflicting":false,"invalidation_reason":null,` +
		`"inactive_since":"2026-01-01T00:00:00+00:00","failover":true,"synced":false,"two_phase_at":"0/3000060"}`))
	f.Add([]byte(`{"slot_name":"p","slot_type":"physical","xmin":"4294967296","restart_lsn":"0/1FFFFFFFF"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := Parse(raw)
		if err != nil && (s.Name != "" || s.RestartLSN != 0) {
			t.Errorf("%v, and yet %+v", err, s)
		}
	})
}
