package main

import (
	"context"
	"fmt"
)

// messages compares a relay that splices a slot message every millisecond with
// the same one that has none to splice.
func (b *bench) messages(ctx context.Context) error {
	for _, m := range []struct {
		what string
		work workload
		of   func(sample) float64
	}{
		{"bulk", workload{Kind: "bulk", Bytes: b.gigabytes(2)}, secondsPerGiB},
		{"small frames", workload{Kind: "small", Bytes: b.gigabytes(1)}, secondsPerGiB},
		{"40 MB/s", workload{Kind: "paced", Length: b.length}, cpuPerGiB},
		{"ping p50", workload{Kind: "ping", Length: b.length}, p50},
	} {
		m.work.OptIn = true
		all, err := b.inTurn(ctx, b.among(silent, talking), m.work, nil)
		if err != nil {
			return err
		}
		b.report.cost(fmt.Sprintf("a slot message every ms: %s, %%", m.what), all, m.of, talking, silent, 2)
	}
	return nil
}

func secondsPerGiB(s sample) float64 { return s.Seconds / float64(s.Bytes) * (1 << 30) }
