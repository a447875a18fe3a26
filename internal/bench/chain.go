package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/poll"
)

// The contestants. Direct is no proxy at all.
const (
	direct   = "direct"
	relayed  = "relay"
	twoHops  = "relay+helper"
	stock    = "haproxy"
	bigStock = "haproxy 128K"

	// A relay in the test binary of package relay that makes a slot message every
	// millisecond: one that keeps them to itself, and one that splices them.
	silent  = "relay, no messages"
	talking = "relay, messages"
)

var everyone = []string{direct, relayed, stock, bigStock, twoHops}

// among leaves of some contestants those that the command line wants.
func (b *bench) among(names ...string) []string {
	if b.contestants == "" {
		return names
	}
	wanted := strings.Split(b.contestants, ",")
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(wanted, name) })
}

// chain is a contestant between a port to connect to and a port it connects to.
type chain struct {
	name  string
	port  int
	pids  []int // of the processes whose cost counts
	procs []*exec.Cmd
}

// material is what a chain needs for TLS: files of one certificate that all trust.
type material struct{ cert, key, pair, root string }

// start starts a contestant; tls has it end TLS on both legs.
func (b *bench) start(ctx context.Context, name string, target int, tls *material) (c *chain, err error) {
	c = &chain{name: name, port: target}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	switch name {
	case direct:
		return c, nil
	case relayed, twoHops:
		upstream := fmt.Sprintf("host=127.0.0.1 port=%d sslmode=disable", target)
		args := []string{"relay", "--slots", "host=127.0.0.1 port=1 user=x dbname=x", "--log-level", "error"}
		if tls != nil {
			upstream = fmt.Sprintf("host=localhost port=%d sslmode=verify-full sslnegotiation=direct sslrootcert=%s", target, tls.root)
			args = append(args, "--tls-cert", tls.cert, "--tls-key", tls.key)
		}
		if err := c.add(ctx, exec.CommandContext(ctx, b.binary), func(addr string) []string {
			return append(args, "--listen", addr, "--upstream", upstream)
		}); err != nil || name == relayed {
			return c, err
		}
		behind := c.port
		state, err := os.MkdirTemp(b.dir, "state-*")
		if err != nil {
			return c, err
		}
		return c, c.add(ctx, exec.CommandContext(ctx, b.binary), func(addr string) []string {
			return []string{"helper", "--listen", addr, "--upstream", fmt.Sprintf("host=127.0.0.1 port=%d sslmode=disable", behind),
				"--standby", "host=127.0.0.1 port=1 user=x dbname=x", "--state-dir", state, "--log-level", "error"}
		})
	case silent, talking:
		then := "keep"
		if name == talking {
			then = "publish"
		}
		cmd := exec.CommandContext(ctx, filepath.Join(b.dir, relayTest))
		return c, c.add(ctx, cmd, func(addr string) []string {
			cmd.Env = append(os.Environ(), fmt.Sprintf("SLOTFERRY_BENCH_RELAY=%s|host=127.0.0.1 port=%d sslmode=disable dbname=x user=x|1ms|%s", addr, target, then))
			return nil
		})
	default:
		cmd := exec.CommandContext(ctx, "haproxy")
		cmd.Stderr = os.Stderr // ours says that there is no server to read slots from, rightly
		return c, c.add(ctx, cmd, func(addr string) []string {
			path := filepath.Join(b.dir, "haproxy.cfg")
			_ = os.WriteFile(path, []byte(haproxyConfig(name, addr, target, tls)), 0o600) // haproxy says if it is missing
			return []string{"-db", "-f", path}
		})
	}
}

func haproxyConfig(name, addr string, target int, tls *material) string {
	size, bind, server := "", "", ""
	if name == bigStock {
		size = "\n  tune.bufsize 131072"
	}
	if tls != nil {
		bind = " ssl crt " + tls.pair + " alpn postgresql"
		server = " ssl verify required ca-file " + tls.root + " verifyhost localhost alpn postgresql"
	}
	return fmt.Sprintf(`global
  maxconn 1000
  nbthread 1%s
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen p
  bind %s%s
  server s 127.0.0.1:%d%s
`, size, addr, bind, target, server)
}

// add starts a program that listens on a free port, and waits until it does.
func (c *chain) add(ctx context.Context, cmd *exec.Cmd, args func(addr string) []string) error {
	port, release, err := cluster.FreePort()
	if err != nil {
		return err
	}
	release()
	addr := "127.0.0.1:" + strconv.Itoa(port)
	cmd.Args = append(cmd.Args, args(addr)...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	c.procs, c.pids, c.port = append(c.procs, cmd), append(c.pids, cmd.Process.Pid), port
	return poll.Until(ctx, 10*time.Second, c.name+" to listen", func(context.Context) (bool, string) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil, fmt.Sprint(err)
	})
}

// close ends the processes.
func (c *chain) close() {
	for _, p := range c.procs {
		_ = p.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(5*time.Second, func() { _ = p.Process.Kill() })
		var exit *exec.ExitError
		if err := p.Wait(); err != nil && !errors.As(err, &exit) {
			fmt.Fprintf(os.Stderr, "bench: end %s: %v\n", c.name, err)
		}
		timer.Stop()
	}
}
