package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slotferry/slotferry/internal/pgbin"
	"github.com/slotferry/slotferry/internal/rig"
)

// stageVariable names the directory with what stage has built, in the process that
// measures.
const stageVariable = "SLOTFERRY_BENCH_STAGE"

// stage builds and fetches all that is needed, and then becomes the process that
// measures: on one core, and where the kernel lets it in a network of its own. It
// returns only when it could not.
func stage(ctx context.Context, s settings) (err error) {
	dir, err := os.MkdirTemp("", "slotferry-bench-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// The servers' owner, who is another one when root runs this, looks in here.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if s.binary == "" {
		if _, err := rig.Build(ctx, dir, false); err != nil {
			return err
		}
	}
	test := exec.CommandContext(ctx, "go", "test", "-c", "-o", filepath.Join(dir, relayTest), "github.com/slotferry/slotferry/relay")
	if out, err := test.CombinedOutput(); err != nil {
		return fmt.Errorf("build the tests of the relay: %w\n%s", err, out)
	}
	if _, _, err := binaries(ctx, s.major); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // exec keeps what this thread has
	var set unix.CPUSet
	set.Set(s.core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("run on core %d: %w", s.core, err)
	}
	if err := ownNetwork(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: no network of its own, the host's congestion control is used: %v\n", err)
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), stageVariable+"="+dir))
}

// binaries finds PostgreSQL, or fetches it.
func binaries(ctx context.Context, major int) (servers, tools pgbin.Installation, err error) {
	cfg := pgbin.Config{BinDirs: os.Getenv("SLOTFERRY_PG_BINDIRS")}
	if servers, err = pgbin.Find(ctx, major, cfg); err != nil {
		return servers, tools, err
	}
	tools, err = pgbin.ClientTools(ctx, max(major, 17), cfg)
	return servers, tools, err
}

// ownNetwork gives this thread a network namespace with nothing but loopback in
// it, where congestion control is Reno's: bbr measures and paces every stream,
// which on loopback costs more than any proxy. Cubic would do, but a namespace may
// choose among those open to all alone (tcp_set_default_congestion_control,
// tcp_cong.c).
func ownNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring loopback up: %w", err)
	}
	return os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte("reno"), 0)
}
