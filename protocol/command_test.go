package protocol

import "testing"

func TestParseCommand(t *testing.T) {
	physical := func(slot string, lsn LSN, tli uint32) Command {
		return Command{Kind: CommandStartPhysical, Slot: slot, StartLSN: lsn, TimelineID: tli}
	}
	for in, want := range map[string]Command{
		// As libpqwalreceiver.c, receivelog.c and pglogrepl send them.
		`START_REPLICATION SLOT "ph1" 0/3000000 TIMELINE 1`: physical("ph1", 0x3000000, 1),
		`START_REPLICATION 16/B374D848 TIMELINE 12`:         physical("", 0x16B374D848, 12),
		`START_REPLICATION SLOT "a""b" PHYSICAL 0/1`:        physical(`a"b`, 1, 0),
		"start_replication\n\tslot Ph1  physical 0/1 ;":     physical("ph1", 1, 0),
		"START_REPLICATION PHYSICAL 0/1":                    physical("", 1, 0),
		`START_REPLICATION SLOT "s" LOGICAL 0/0 (proto_version '4', publication_names '"p"')`: {
			Kind: CommandStartLogical, Slot: "s"},
		"SLOT_STATE":      {Kind: CommandSlotState},
		" slot_state ; ":  {Kind: CommandSlotState},
		"SLOT_STATES":     {},
		"SLOT_STATE 1":    {},
		"SLOT_STATE;;":    {},
		"":                {},
		"IDENTIFY_SYSTEM": {Kind: CommandIdentifySystem},
		"identify_system": {Kind: CommandIdentifySystem},

		// Not certain, so not physical.
		"START_REPLICATION":                         {},
		"START_REPLICATION SLOT":                    {},
		"START_REPLICATION SLOT s":                  {},
		`START_REPLICATION SLOT "s 0/1`:             {},
		"START_REPLICATION LOGICAL 0/1":             {},
		"START_REPLICATION 0/1 TIMELINE":            {},
		"START_REPLICATION 0/1 TIMELINE 0":          {},
		"START_REPLICATION 0/1 TIMELINE 4294967296": {},
		"START_REPLICATION 0/1 (a 'b')":             {},
		"START_REPLICATION 0/1; SELECT 1":           {},
		"START_REPLICATION 0-1":                     {},
		"START_REPLICATIONS 0/1":                    {},
		"SELECT 1; START_REPLICATION 0/1":           {},
		"-- START_REPLICATION 0/1":                  {},
	} {
		if got := ParseCommand(in); got != want {
			t.Errorf("ParseCommand(%q) = %+v, want %+v", in, got, want)
		}
	}
	for k := range CommandCreateLogical + 1 {
		if k.String() == "" {
			t.Errorf("kind %d has no name", k)
		}
	}
}

func FuzzParseCommand(f *testing.F) {
	f.Add(`START_REPLICATION SLOT "a""b" PHYSICAL 0/1 TIMELINE 3;`)
	f.Add("SLOT_STATE")
	f.Add(`CREATE_REPLICATION_SLOT "a""b" TEMPORARY LOGICAL pgoutput (TWO_PHASE, FAILOVER false, SNAPSHOT 'use');`)
	f.Add("CREATE_REPLICATION_SLOT a LOGICAL test_decoding NOEXPORT_SNAPSHOT TWO_PHASE")
	f.Fuzz(func(t *testing.T, s string) {
		c := ParseCommand(s)
		if c.Kind == CommandOther && c != (Command{}) {
			t.Errorf("ParseCommand(%q) = %+v", s, c)
		}
	})
}
