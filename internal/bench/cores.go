package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// wholeMachine lets this process, and what it starts from now on, run on all cores,
// and ahead of all that is not measured where it may (SCHED_RR): else the 99th
// percentile tells what other work there was. It holds until restore is called.
func wholeMachine() (restore func(), err error) {
	var before, all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("read on which core this runs: %w", err)
	}
	for core := range cpus() {
		all.Set(core)
	}
	if err := eachThread(func(id int) error { return unix.SchedSetaffinity(id, &all) }); err != nil {
		return nil, fmt.Errorf("run on all cores: %w", err)
	}
	if err := setPolicy(unix.SCHED_RR, 1); err != nil {
		fmt.Fprintf(os.Stderr, "bench: not ahead of other work, whose cost is in the figures of hold-back: %v\n", err)
	}
	procs := runtime.GOMAXPROCS(cpus())
	return func() {
		runtime.GOMAXPROCS(procs)
		// To what it may always have; and nothing is measured on it if not.
		_ = setPolicy(unix.SCHED_NORMAL, 0)
		_ = eachThread(func(id int) error { return unix.SchedSetaffinity(id, &before) })
	}, nil
}

func setPolicy(policy, priority uint32) error {
	return eachThread(func(id int) error {
		return unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy, Priority: priority}, 0)
	})
}

// eachThread does it to all threads: one that is begun meanwhile has it from the one
// that begins it, so a second look finds none without.
func eachThread(do func(id int) error) error {
	for range 2 {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			if err != nil {
				return err
			}
			if err := do(id); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}
