package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/slotferry/slotferry/internal/procstat"
)

// usage is what a process has used so far.
type usage struct {
	cpu      float64 // seconds
	switches float64 // context switches of all threads
}

// threads returns the ids of a process's threads.
func threads(pid int) []int {
	list, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	var tids []int
	for _, path := range list {
		if tid, err := strconv.Atoi(filepath.Base(path)); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}

// use adds up what some processes have used.
func use(pids ...int) usage {
	u := usage{cpu: procstat.CPU(pids...).Seconds()}
	for _, pid := range pids {
		for _, tid := range threads(pid) {
			task := fmt.Sprintf("/proc/%d/task/%d/", pid, tid)
			u.switches += field(task+"status", "voluntary_ctxt_switches") + field(task+"status", "nonvoluntary_ctxt_switches")
		}
	}
	return u
}

func (u usage) since(before usage) usage {
	return usage{u.cpu - before.cpu, u.switches - before.switches}
}

// field returns the number behind a name in a status file.
func field(path, name string) float64 {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return n
		}
	}
	return 0
}

// rss returns the resident memory of some processes in KiB.
func rss(pids ...int) (kib float64) {
	for _, pid := range pids {
		kib += float64(procstat.RSS(pid)) / 1024
	}
	return kib
}
