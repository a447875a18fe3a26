package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// These are in a log that must not have them. Signal 9 is what rounds send, any other
// that ended a process of a server is a crash.
var (
	fault = regexp.MustCompile(`WARNING: DATA RACE|panic: |fatal error: `)
	crash = regexp.MustCompile(`(?m)^.*(was terminated by signal [^9]|TRAP: |PANIC: ).*$`)
)

// faults returns what the race detector and the Go runtime have written into the
// logs of slotferry, and the crashes of the servers that it serves, as an error.
func faults(dir string) error {
	var errs []error
	for pattern, sign := range map[string]*regexp.Regexp{"*.log": fault, "[abc]/server.log": crash} {
		logs, err := filepath.Glob(filepath.Join(dir, pattern))
		errs = append(errs, err)
		for _, path := range logs {
			line, err := find(path, sign)
			errs = append(errs, err)
			if line != "" {
				errs = append(errs, fmt.Errorf("%s: %q is in its log", path, line))
			}
		}
	}
	return errors.Join(errs...)
}

// subscriberCrash returns what the subscriber's log says of a crash, "" when it has
// had none.
func subscriberCrash(dir string) (string, error) {
	return find(filepath.Join(dir, "subscriber", "server.log"), crash)
}

// find returns the first of what is in a file.
func find(path string, what *regexp.Regexp) (string, error) {
	text, err := os.ReadFile(path)
	return string(what.Find(text)), err
}
