package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/slotferry/slotferry/internal/testcert"
)

// sample is one measurement of one contestant.
type sample struct {
	outcome
	usage
	memory
}

// measure runs a workload through a contestant that is started for it.
func (b *bench) measure(ctx context.Context, name string, w workload, tls *material) (s sample, err error) {
	text, err := json.Marshal(w)
	if err != nil {
		return s, err
	}
	self, err := os.Executable()
	if err != nil {
		return s, err
	}
	role := func(role string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, self, append([]string{string(text)}, args...)...)
		cmd.Env = append(os.Environ(), roleVariable+"="+role)
		cmd.Stderr = os.Stderr
		return cmd
	}
	sender := role("walsender")
	pipe, err := sender.StdoutPipe()
	if err != nil {
		return s, err
	}
	if err := sender.Start(); err != nil {
		return s, err
	}
	defer func() { _, _ = sender.Process.Kill(), sender.Wait() }()
	out := bufio.NewReader(pipe)
	line, err := out.ReadString('\n')
	if err != nil {
		return s, fmt.Errorf("read the walsender's port: %w", err)
	}
	port, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return s, err
	}
	c, err := b.start(ctx, name, port, tls)
	if err != nil {
		return s, err
	}
	defer c.close()
	before := use(c.pids...)
	var stderr bytes.Buffer
	receiver := role("walreceiver", strconv.Itoa(c.port))
	receiver.Stderr = &stderr
	if err := receiver.Run(); err != nil {
		return s, fmt.Errorf("%s, %s: walreceiver: %w, %s", name, w.Kind, err, &stderr)
	}
	s.usage = use(c.pids...).since(before)
	return s, json.NewDecoder(out).Decode(&s.outcome)
}

// inTurn measures every contestant in turn, round by round.
func (b *bench) inTurn(ctx context.Context, names []string, w workload, tls *material) (map[string][]sample, error) {
	all := map[string][]sample{}
	for round := range b.rounds {
		for _, name := range turn(names, round) {
			s, err := b.measure(ctx, name, w, tls)
			if err != nil {
				return nil, err
			}
			all[name] = append(all[name], s)
		}
	}
	return all, nil
}

// turn is the order of a round: every other one goes backwards, for a machine that
// gets slower or faster all the time favours none then.
func turn(names []string, round int) []string {
	if round%2 == 0 {
		return names
	}
	names = slices.Clone(names)
	slices.Reverse(names)
	return names
}

func throughput(s sample) float64 { return float64(s.Bytes) / s.Seconds / 1e9 }
func cpuPerGiB(s sample) float64  { return s.cpu / float64(s.Bytes) * (1 << 30) }
func p50(s sample) float64        { return s.P50 }
func p99(s sample) float64        { return s.P99 }
func switches(s sample) float64   { return s.switches / float64(max(s.Pings, 1)) }

func (b *bench) gigabytes(n float64) int { return int(n * b.length.Seconds() * 1e9) }

// bulk measures frames as large as a walsender sends when there is much.
func (b *bench) bulk(ctx context.Context) error {
	all, err := b.inTurn(ctx, b.among(everyone...), workload{Kind: "bulk", Bytes: b.gigabytes(4)}, nil)
	if err != nil {
		return err
	}
	b.report.ratio("bulk throughput, GB/s", all, throughput, bigStock, atLeast, 1.0)
	b.report.ratio("bulk throughput, GB/s", all, throughput, stock, atLeast, b.report.bulkTarget())
	b.report.ratio("bulk CPU, s/GiB", all, cpuPerGiB, bigStock, atMost, 0.75)
	return nil
}

// small measures frames of small transactions, many to a write.
func (b *bench) small(ctx context.Context) error {
	all, err := b.inTurn(ctx, b.among(everyone...), workload{Kind: "small", Bytes: b.gigabytes(2)}, nil)
	if err != nil {
		return err
	}
	b.report.ratio("small frames, coalesced, GB/s", all, throughput, stock, atLeast, 1.05)
	b.report.ratio("small frames, coalesced, CPU s/GiB", all, cpuPerGiB, stock, atMost, 0.8)
	return nil
}

// paced measures small frames at the rate of a busy server.
func (b *bench) paced(ctx context.Context) error {
	all, err := b.inTurn(ctx, b.among(everyone...), workload{Kind: "paced", Length: b.length}, nil)
	if err != nil {
		return err
	}
	b.report.ratio("small frames at 40 MB/s, CPU s/GiB", all, cpuPerGiB, stock, atMost, 1.0)
	return nil
}

// pings measures one frame and its reply, as a synchronous commit needs them.
func (b *bench) pings(ctx context.Context) error {
	all, err := b.inTurn(ctx, b.among(everyone...), workload{Kind: "ping", Length: b.length}, nil)
	if err != nil {
		return err
	}
	b.report.added("added ping p50, us", all, p50, stock, 1.0)
	b.report.added("added ping p99, us", all, p99, stock, 1.1)
	b.report.value("context switches per ping", all, switches, 2.1)
	return nil
}

// encrypted measures TLS on both legs, direct as HAProxy can only do it.
func (b *bench) encrypted(ctx context.Context) error {
	authority, err := testcert.NewAuthority("bench")
	if err != nil {
		return err
	}
	pair, err := authority.Issue("localhost", "127.0.0.1")
	if err != nil {
		return err
	}
	m := &material{pair: filepath.Join(b.dir, "pair.pem"), root: filepath.Join(b.dir, "root.pem")}
	if m.cert, m.key, err = pair.Write(b.dir, "bench"); err != nil {
		return err
	}
	if err := os.WriteFile(m.pair, []byte(pair.Cert+pair.Key), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(m.root, []byte(authority.PEM()), 0o600); err != nil {
		return err
	}
	w := workload{Kind: "bulk", Bytes: int(0.6e9 * b.length.Seconds()), Cert: m.pair}
	all, err := b.inTurn(ctx, b.among(relayed, stock, bigStock, twoHops), w, m)
	if err != nil {
		return err
	}
	b.report.ratio("TLS on both legs, GB/s", all, throughput, stock, atLeast, 1.15)
	b.report.ratio("TLS on both legs, CPU s/GiB", all, cpuPerGiB, stock, atMost, 0.75)
	return nil
}
