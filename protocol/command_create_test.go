package protocol

import "testing"

// What is read of CREATE_REPLICATION_SLOT is whether somebody can read rows with its
// snapshot: where that is not certain the answer is that they can.
func TestParseCreateReplicationSlot(t *testing.T) {
	creates := Command{Kind: CommandCreateLogical, Slot: "s"}
	nothing := Command{Kind: CommandCreateLogical, Slot: "s", NoSnapshot: true}
	for in, want := range map[string]Command{
		// As libpqwalreceiver.c sends them, before 15 and since.
		`CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput USE_SNAPSHOT`:                              creates,
		`CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput TWO_PHASE NOEXPORT_SNAPSHOT`:               nothing,
		`CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput (SNAPSHOT 'use')`:                          creates,
		`CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput (SNAPSHOT 'export')`:                       creates,
		`CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput (FAILOVER, TWO_PHASE, SNAPSHOT 'nothing')`: nothing,

		// As others do.
		"CREATE_REPLICATION_SLOT s LOGICAL pgoutput":                                         creates,
		"create_replication_slot S temporary logical test_decoding ;":                        creates,
		"CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT;":            nothing,
		"CREATE_REPLICATION_SLOT s LOGICAL pgoutput EXPORT_SNAPSHOT":                         creates,
		"CREATE_REPLICATION_SLOT s LOGICAL pgoutput (two_phase 'on',\n snapshot nothing ) ;": nothing,
		"CREATE_REPLICATION_SLOT s LOGICAL pgoutput (failover false)":                        creates,
		`CREATE_REPLICATION_SLOT "s" TEMPORARY LOGICAL "a""b" ("snapshot" "nothing")`:        nothing,

		// The server refuses these, or does not: not certain.
		"CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT)":                           creates,
		"CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'Nothing')":                 creates,
		"CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'nothing', SNAPSHOT 'use')": creates,
		"CREATE_REPLICATION_SLOT s LOGICAL pgoutput (x 'SNAPSHOT ''nothing''')":           creates,
		"CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'nothing'":                  creates,
		"CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'nothing":                   creates,
		"CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'nothing') x":               creates,
		"CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT":                            creates,
		"CREATE_REPLICATION_SLOT s LOGICAL pgoutput NOEXPORT_SNAPSHOT USE_SNAPSHOT":       creates,
		"CREATE_REPLICATION_SLOT s LOGICAL pgoutput NOEXPORT_SNAPSHOTS":                   creates,
		"CREATE_REPLICATION_SLOT s LOGICAL":                                               creates,
		"CREATE_REPLICATION_SLOT s":                                                       creates,
		"CREATE_REPLICATION_SLOT":                                                         {Kind: CommandCreateLogical},
		`CREATE_REPLICATION_SLOT "s LOGICAL pgoutput NOEXPORT_SNAPSHOT`:                   {Kind: CommandCreateLogical},

		// Others.
		"CREATE_REPLICATION_SLOT s PHYSICAL":                       {},
		"CREATE_REPLICATION_SLOT s TEMPORARY PHYSICAL RESERVE_WAL": {},
		"CREATE_REPLICATION_SLOTS s LOGICAL pgoutput":              {},
		"READ_REPLICATION_SLOT s":                                  {},
		"-- CREATE_REPLICATION_SLOT s LOGICAL pgoutput":            {},
	} {
		if got := ParseCommand(in); got != want {
			t.Errorf("ParseCommand(%q) = %+v, want %+v", in, got, want)
		}
	}
}
