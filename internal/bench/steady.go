package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// relayTest is the test binary of package relay.
const relayTest = "relay.test"

var scanLine = regexp.MustCompile(`(?m)^BenchmarkScan/(\w+)-?\d*\s.*?([0-9.]+) ns/frame.*?([0-9.]+) allocs/op`)

// steady runs the relay's own benchmark of what it does for each frame.
func (b *bench) steady(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, filepath.Join(b.dir, relayTest), "-test.run", "^$", "-test.bench", "^BenchmarkScan$", "-test.benchtime", "0.3s")
	out, err := cmd.CombinedOutput()
	scan, allocations := map[string]float64{}, 0.0
	for _, m := range scanLine.FindAllSubmatch(out, -1) {
		ns, nsErr := strconv.ParseFloat(string(m[2]), 64)
		allocated, allocatedErr := strconv.ParseFloat(string(m[3]), 64)
		if err := errors.Join(nsErr, allocatedErr); err != nil {
			return err
		}
		scan[string(m[1])], allocations = ns, max(allocations, allocated)
	}
	for _, r := range []struct {
		what, name string
		target     float64
	}{
		{"scan of a frame, ns", "splice", 10},
		{"scan of a logical frame, no hold-back, ns", "logical", 40},
		{"scan of a logical frame with hold-back, ns", "held_back", 120},
	} {
		ns, ok := scan[r.name]
		if !ok {
			return fmt.Errorf("run the benchmark of scanning: %w, %s", err, bytes.TrimSpace(out))
		}
		b.report.value(r.what, plain(ns), p50, r.target)
	}
	b.report.value("allocations per frame", plain(allocations), p50, 0)
	return nil
}

// plain is a figure that was taken once.
func plain(v float64) map[string][]sample {
	return map[string][]sample{relayed: {{outcome: outcome{P50: v}}}}
}
