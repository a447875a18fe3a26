package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/slotferry/slotferry/internal/table"
)

// report is all figures of a run.
type report struct {
	PostgreSQL string    `json:"postgresql"`
	Mode       string    `json:"mode"`
	Rate       int       `json:"transactions_per_second"`
	Time       time.Time `json:"time"`
	CPUs       int       `json:"cpus"`
	Seconds    float64   `json:"seconds"`
	Stages     []stage   `json:"stages"`
}

func newReport(s settings, version string) *report {
	return &report{PostgreSQL: version, Mode: string(s.mode), Rate: s.rate, Time: time.Now().UTC(), CPUs: runtime.NumCPU()}
}

// write writes the JSON.
func (r *report) write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// print writes the table: a line for each figure of each number of slots.
func (r *report) print(w io.Writer) error {
	fmt.Fprintf(w, "PostgreSQL %s, %s, pgbench at %d transactions a second, %d CPUs, %.0f s\n\n", r.PostgreSQL, r.Mode, r.Rate, r.CPUs, r.Seconds)
	t := table.Table{Header: []string{"slots", "what", "slotferry", "worker", "ratio"}, Right: []bool{true, false, true, true, true}}
	for i := range r.Stages {
		t.Rows = append(t.Rows, r.Stages[i].lines()...)
	}
	return t.Write(w)
}

// line is a line of the table with the ratio of two figures.
func line(slots int, what, format string, p pairOf[float64]) []table.Cell {
	ratio := ""
	if p.Worker != 0 {
		ratio = strconv.FormatFloat(p.Slotferry/p.Worker, 'f', 2, 64)
	}
	return table.Text(strconv.Itoa(slots), what, fmt.Sprintf(format, p.Slotferry), fmt.Sprintf(format, p.Worker), ratio)
}

func (st *stage) lines() (rows [][]table.Cell) {
	add := func(what, format string, ferry, worker float64) {
		rows = append(rows, line(st.Slots, what, format, pairOf[float64]{ferry, worker}))
	}
	own := func(what, format string, v float64) {
		rows = append(rows, table.Text(strconv.Itoa(st.Slots), what, fmt.Sprintf(format, v)))
	}
	spread := func(what, format string, ferry, worker quantiles) {
		add(what+" p50", format, ferry.P50, worker.P50)
		add(what+" p90", format, ferry.P90, worker.P90)
		add(what+" p99", format, ferry.P99, worker.P99)
	}
	own("load average of the machine", "%.1f", max(st.LoadBefore, st.LoadAfter))
	own("WAL, kB/s", "%.0f", st.WALRate/1e3)
	add("all ready after the last creation, ms", "%.0f", st.AllReady.Slotferry, st.AllReady.Worker)
	spread("position lag, ms", "%.0f", st.LagMs.Slotferry, st.LagMs.Worker)
	spread("position lag, bytes", "%.0f", st.LagBytes.Slotferry, st.LagBytes.Worker)
	add("CPU at the standby, % of a core", "%.2f", 100*median(st.CPU.Slotferry), 100*median(st.CPU.Worker))
	own("  of which the anchor's session", "%.2f", 100*median(st.Anchor.CPU))
	add("CPU of reading at the primary, % of a core", "%.2f", 100*median(st.ReaderCPU.Slotferry), 100*median(st.ReaderCPU.Worker))
	own("CPU of the relay, WAL included, % of a core", "%.2f", 100*median(st.RelayCPU))
	own("memory of the helper, MiB", "%.1f", float64(st.Memory)/(1<<20))
	own("WAL kept by the anchor at most, kB", "%.0f", float64(st.Anchor.Retained)/1e3)
	own("WAL kept by a slot at most, kB", "%.0f", float64(st.Retained)/1e3)
	own("slot message after the confirmation, ms p50", "%.0f", st.Messages.P50)
	own("slot message after the confirmation, ms p99", "%.0f", st.Messages.P99)
	if b := st.Births; b != nil {
		spread(fmt.Sprintf("ready after birth (%d), ms", b.Slotferry.N), "%.0f", b.Slotferry.quantiles, b.Worker.quantiles)
		add("  not ready within the bound", "%.0f", float64(b.Slotferry.Late), float64(b.Worker.Late))
		own("anchor lost: another one after, ms", "%.0f", st.Anchor.Renewal)
		own("anchor lost, a transaction prepared: named after, ms", "%.0f", st.Anchor.SaysWaiting)
		own("  slots ready meanwhile", "%.0f", float64(st.Anchor.ReadyMeantime))
		own("  another one after the transaction's end, ms", "%.0f", st.Anchor.AfterPrepared)
	}
	f, g := &st.Failover.Slotferry, &st.Failover.Worker
	own("kill -9, promotion: slots done after it, ms", "%.0f", f.SlotsDoneMs) // the worker has nothing left to do
	add("  slots missing", "%.0f", float64(f.SlotsMissing), float64(g.SlotsMissing))
	add("  rows sent again from the slot's position, p50", "%.0f", f.Again.P50, g.Again.P50)
	add("  rows sent again from the slot's position, most", "%.0f", f.Again.Max, g.Again.Max)
	add("  rows sent again from the subscriber's position", "%.0f", float64(f.AgainFromOwn), float64(g.AgainFromOwn))
	add("  rows lost", "%.0f", float64(f.Lost+f.LostFromOwn), float64(g.Lost+g.LostFromOwn))
	add("  rows that only subscribers have", "%.0f", float64(f.Ahead), float64(g.Ahead))
	return rows
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}
