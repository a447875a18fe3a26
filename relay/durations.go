package relay

import (
	"fmt"
	"time"
)

// duration is a setting whose zero value stands for a default.
type duration struct {
	name  string
	value *time.Duration
	dflt  time.Duration
}

// fillDurations puts defaults in place of zeros, and returns an error for each
// setting that is negative.
func fillDurations(settings ...duration) (errs []error) {
	for _, d := range settings {
		switch {
		case *d.value < 0:
			errs = append(errs, fmt.Errorf("%s is negative", d.name))
		case *d.value == 0:
			*d.value = d.dflt
		}
	}
	return errs
}
