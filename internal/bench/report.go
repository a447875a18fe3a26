package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// report is all figures of a run.
type report struct {
	Core    int     `json:"core"`
	Rounds  int     `json:"rounds"`
	Kernel  string  `json:"kernel"`
	Control string  `json:"tcp_congestion_control"`
	CPU     int     `json:"cpus"`
	Model   string  `json:"cpu_model"`
	Seconds float64 `json:"seconds"`
	Rows    []row   `json:"rows"`
}

// row is one target.
type row struct {
	What    string               `json:"what"`
	Against string               `json:"against,omitempty"`
	Target  string               `json:"target"`
	Value   float64              `json:"value"`
	Met     bool                 `json:"met"`
	TwoHops float64              `json:"two_hops,omitempty"` // the same with a helper behind the relay
	Medians map[string]float64   `json:"medians"`            // of each contestant, in the unit of What
	Samples map[string][]float64 `json:"samples"`
}

// The directions of a target.
const (
	atLeast = ">="
	atMost  = "<="
)

func newReport(s settings) *report {
	read := func(path string) string {
		b, _ := os.ReadFile(path)
		return strings.TrimSpace(string(b))
	}
	model := ""
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return &report{Core: s.core, Rounds: s.rounds, CPU: cpus(), Model: model, Kernel: read("/proc/sys/kernel/osrelease"),
		Control: read("/proc/sys/net/ipv4/tcp_congestion_control")}
}

// cpus is how many the machine has; this process may use one of them.
func cpus() int {
	list, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*")
	return len(list)
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

// row makes a row of measurements, without its verdict.
func newRow(what, against string, all map[string][]sample, of func(sample) float64) row {
	r := row{What: what, Against: against, Medians: map[string]float64{}, Samples: map[string][]float64{}}
	for name, samples := range all {
		for _, s := range samples {
			r.Samples[name] = append(r.Samples[name], of(s))
		}
		r.Medians[name] = median(r.Samples[name])
	}
	return r
}

// paired returns the median of what f makes of two contestants' figures of the
// same round, and of a third one's.
func (r *row) paired(a, b, base string, f func(a, b, base float64) float64) float64 {
	var list []float64
	for i := range min(len(r.Samples[a]), len(r.Samples[b])) {
		var zero float64
		if i < len(r.Samples[base]) {
			zero = r.Samples[base][i]
		}
		list = append(list, f(r.Samples[a][i], r.Samples[b][i], zero))
	}
	return median(list)
}

func (r *row) judge(direction string, target float64, format string) {
	r.Target = direction + " " + fmt.Sprintf(format, target)
	r.Met = r.Value >= target
	if direction == atMost {
		r.Met = r.Value <= target
	}
}

// bulkTarget is what is asked of bulk throughput against HAProxy as it comes: less
// where the kernel paces what is sent (tcp_bbr.c), which the smaller buffers suffer
// from less.
func (rep *report) bulkTarget() float64 {
	if rep.Control == "bbr" {
		return 1.1
	}
	return 1.5
}

func quotient(a, b, _ float64) float64 { return a / b }

// ratio compares the relay with another contestant, round by round.
func (rep *report) ratio(what string, all map[string][]sample, of func(sample) float64, against, direction string, target float64) {
	r := newRow(what, against, all, of)
	r.Value = r.paired(relayed, against, "", quotient)
	r.TwoHops = r.paired(twoHops, against, "", quotient)
	r.judge(direction, target, "%.2fx")
	rep.add(r)
}

// added compares what contestants add to having none between.
func (rep *report) added(what string, all map[string][]sample, of func(sample) float64, against string, target float64) {
	r := newRow(what, against, all, of)
	f := func(a, b, base float64) float64 { return (a - base) / (b - base) }
	r.Value, r.TwoHops = r.paired(relayed, against, direct, f), r.paired(twoHops, against, direct, f)
	r.judge(atMost, target, "%.2fx")
	rep.add(r)
}

// cost says by how many per cent a contestant's figure is above another's.
func (rep *report) cost(what string, all map[string][]sample, of func(sample) float64, a, b string, target float64) {
	r := newRow(what, "", all, of)
	r.Value = r.paired(a, b, "", func(a, b, _ float64) float64 { return (a/b - 1) * 100 })
	r.judge(atMost, target, "%.0f")
	rep.add(r)
}

// value is the relay's own figure.
func (rep *report) value(what string, all map[string][]sample, of func(sample) float64, target float64) {
	r := newRow(what, "", all, of)
	r.Value, r.TwoHops = r.Medians[relayed], r.Medians[twoHops]
	r.judge(atMost, target, "%.1f")
	rep.add(r)
}

func (rep *report) add(r row) {
	rep.Rows = append(rep.Rows, r)
	fmt.Fprintf(os.Stderr, "%s %s: %.3f\n", r.What, r.Against, r.Value)
}

// print writes the table.
func (rep *report) print(w io.Writer) {
	fmt.Fprintf(w, "one core (%d of %d, %s), %d rounds in turn, medians of paired ratios; kernel %s, %s; %.0f s\n\n",
		rep.Core, rep.CPU, rep.Model, rep.Rounds, rep.Kernel, rep.Control, rep.Seconds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tagainst\ttarget\tvalue\tverdict\ttwo hops\tmedians")
	for _, r := range rep.Rows {
		verdict, hops := "missed", ""
		switch {
		case r.Target == "": // it is there for comparison
			verdict = ""
		case r.Met:
			verdict = "met"
		}
		if r.TwoHops != 0 {
			hops = fmt.Sprintf("%.2f", r.TwoHops)
		}
		var medians []string
		for _, name := range []string{direct, relayed, twoHops, stock, bigStock, silent, talking} {
			if v, ok := r.Medians[name]; ok {
				medians = append(medians, fmt.Sprintf("%s %.3g", name, v))
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.2f\t%s\t%s\t%s\n", r.What, r.Against, r.Target, r.Value, verdict, hops, strings.Join(medians, ", "))
	}
	_ = t.Flush()
}

// write writes the JSON.
func (rep *report) write(path string) error {
	b, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
