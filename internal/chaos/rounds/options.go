package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/slotferry/slotferry/internal/chaos"
)

// options are what the environment says.
type options struct {
	rounds, jobs int
	seed         uint64
	disk         bool // state directories can be filled
	limits       chaos.Limits
}

// readOptions reads the environment.
func readOptions(getenv func(string) string) (options, error) {
	o := options{rounds: 1, jobs: 2, seed: uint64(time.Now().Unix()), limits: chaos.Limits{Majors: []int{16, 17, 18}, Short: getenv("SHORT") != ""}}
	for name, to := range map[string]*int{"ROUNDS": &o.rounds, "JOBS": &o.jobs} {
		if text := getenv(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return o, fmt.Errorf("%s=%s: want a number, 1 or more", name, text)
			}
			*to = n
		}
	}
	if text := getenv("SEED"); text != "" {
		var err error
		if o.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return o, fmt.Errorf("SEED=%s: want a number", text)
		}
	}
	if text := getenv("PG"); text != "" && text != "all" {
		major, err := strconv.Atoi(text)
		if err != nil || !slices.Contains(o.limits.Majors, major) {
			return o, fmt.Errorf("PG=%s: want 16, 17, 18 or all", text)
		}
		o.limits.Majors = []int{major}
	}
	return o, nil
}
