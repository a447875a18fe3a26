package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// relayTest is the test binary of package relay.
const relayTest = "relay.test"

var scanLine = regexp.MustCompile(`(?m)^BenchmarkScan/splice\S*\s.*?([0-9.]+) ns/frame.*?([0-9.]+) allocs/op`)

// steady runs the relay's own benchmark of what it does for each frame.
func (b *bench) steady(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, filepath.Join(b.dir, relayTest), "-test.run", "^$", "-test.bench", "^BenchmarkScan$", "-test.benchtime", "0.3s")
	out, err := cmd.CombinedOutput()
	m := scanLine.FindSubmatch(out)
	if m == nil {
		return fmt.Errorf("run the benchmark of scanning: %w, %s", err, bytes.TrimSpace(out))
	}
	scan, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		return err
	}
	allocations, err := strconv.ParseFloat(string(m[2]), 64)
	if err != nil {
		return err
	}
	b.report.value("scan of a frame, ns", plain(scan), p50, 10)
	b.report.value("allocations per frame", plain(allocations), p50, 0)
	return nil
}

// plain is a figure that was taken once.
func plain(v float64) map[string][]sample {
	return map[string][]sample{relayed: {{outcome: outcome{P50: v}}}}
}
