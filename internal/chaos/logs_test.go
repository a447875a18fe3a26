package chaos

import (
	"os"
	"path/filepath"
	"testing"
)

// A log that tells of a race, a panic or a crash spoils a round, and one that tells
// of what was done in it does not.
func TestLogs(t *testing.T) {
	for _, test := range []struct {
		log, text        string
		fault, subscribe bool
	}{
		{"a-relay.log", "WARNING: DATA RACE\nWrite at", true, false},
		{"b-helper.log", "panic: runtime error", true, false},
		{"b-helper.log", `{"level":"warn","message":"relay is down"}`, false, false},
		{"a/server.log", "LOG:  server process (PID 7) was terminated by signal 11: Segmentation fault", true, false},
		{"c/server.log", "LOG:  server process (PID 7) was terminated by signal 6: Aborted", true, false},
		{"b/server.log", "startup  PANIC:  could not locate a valid checkpoint record", true, false},
		{"b/server.log", "LOG:  server process (PID 7) was terminated by signal 9: Killed", false, false},
		{"b/server.log", "FATAL:  terminating connection due to conflict with recovery", false, false},
		{"subscriber/server.log", `LOG:  background worker "logical replication apply worker" (PID 7) was terminated by signal 11`, false, true},
		{"subscriber/server.log", "LOG:  database system was not properly shut down", false, false},
	} {
		dir := t.TempDir()
		for _, server := range []string{"a", "b", "c", "subscriber"} {
			if err := os.Mkdir(filepath.Join(dir, server), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, server, "server.log"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, test.log), []byte("LOG:  a line before\n"+test.text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := faults(dir)
		line, crashErr := subscriberCrash(dir)
		if (err != nil) != test.fault || (line != "") != test.subscribe || crashErr != nil {
			t.Errorf("%s %q: faults %v, subscriber's crash %q, %v", test.log, test.text, err, line, crashErr)
		}
	}
}
