// Package procstat reads from /proc what processes have used.
package procstat

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPU returns the CPU time that processes have used so far, all their threads
// together. It is exact to the nanosecond (schedstat): stat counts ticks of 10 ms,
// of which a process that wakes up often and briefly gets none or too many. A
// thread that has ended is not counted any more, a process that is not there
// counts nothing.
func CPU(pids ...int) time.Duration {
	var sum time.Duration
	for _, pid := range pids {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is right
		for _, path := range tasks {
			text, _ := os.ReadFile(path) // a thread may end meanwhile
			if fields := strings.Fields(string(text)); len(fields) > 0 {
				ns, _ := strconv.ParseInt(fields[0], 10, 64)
				sum += time.Duration(ns)
			}
		}
	}
	return sum
}

// RSS returns the resident memory of a process in bytes, 0 if it is not there.
func RSS(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
