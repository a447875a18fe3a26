package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
)

// standbyCount is how many there are at once.
const standbyCount = 64

// standbys measures one process with many standbys: what it takes before, with all
// of them idle, and while all of them stream, and how much then goes through.
func (b *bench) standbys(ctx context.Context) error {
	all := map[string][]sample{}
	for round := range b.rounds {
		for _, name := range turn(b.among(relayed, bigStock, twoHops), round) {
			s, err := b.crowd(ctx, name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			all[name] = append(all[name], s)
		}
	}
	b.report.ratio("64 standbys, GB/s", all, throughput, bigStock, atLeast, 1.0)
	b.report.value("base memory, MiB", all, func(s sample) float64 { return s.base / 1024 }, 20)
	b.report.value("memory of an idle standby, KiB", all, func(s sample) float64 { return s.idle }, 64)
	b.report.value("memory of a busy standby, KiB", all, func(s sample) float64 { return s.busy }, 256)
	return nil
}

// memory is the resident memory of a contestant, in KiB.
type memory struct {
	base float64 // of all its processes, with no standby
	idle float64 // of each standby
	busy float64 // of each standby
}

// crowd is a contestant with many standbys, whose both ends are in this process.
type crowd struct {
	up, down []net.Conn
}

func (c *crowd) close() {
	for _, conn := range append(c.up, c.down...) {
		_ = conn.Close()
	}
}

func (b *bench) crowd(ctx context.Context, name string) (s sample, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return s, err
	}
	defer l.Close()
	c, err := b.start(ctx, name, l.Addr().(*net.TCPAddr).Port, nil)
	if err != nil {
		return s, err
	}
	defer c.close()
	s.base = rss(c.pids...)
	var ends crowd
	defer ends.close()
	for range standbyCount {
		if err := ends.join(l, c.port); err != nil {
			return s, err
		}
	}
	idle := rss(c.pids...)
	s.idle = (idle - s.base) / standbyCount
	before := use(c.pids...)
	busy, err := ends.stream(ctx, b.length, &s.outcome, func() float64 { return rss(c.pids...) })
	s.usage = use(c.pids...).since(before)
	s.busy = (busy - s.base) / standbyCount
	return s, err
}

// join opens one session more, up to its stream.
func (c *crowd) join(l net.Listener, port int) error {
	down, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return err
	}
	c.down = append(c.down, down)
	startup := protocol.StartupMessage{Version: protocol.ProtocolVersion3, Parameters: []protocol.StartupParameter{
		{Name: "user", Value: "x"}, {Name: "replication", Value: "true"}}}
	if _, err := down.Write(append(startup.Append(nil), startReplication...)); err != nil {
		return err
	}
	for { // a proxy that dials before it is asked to lets a look whether it listens through
		up, err := l.Accept()
		if err != nil {
			return err
		}
		if err := serveStartup(up); err != nil {
			_ = up.Close()
			continue
		}
		c.up = append(c.up, up)
		break
	}
	want := make([]byte, len(welcome)+len(protocol.AppendCopyBothResponse(nil)))
	_, err = io.ReadFull(down, want)
	return err
}

// stream lets all of them stream for a while, and returns the most memory seen.
func (c *crowd) stream(ctx context.Context, length time.Duration, out *outcome, memory func() float64) (most float64, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards out.Bytes
	began := time.Now()
	stop := began.Add(length)
	frame := walFrames(bulkFrame, bulkFrame)
	for i, down := range c.down {
		up := c.up[i]
		_ = down.SetReadDeadline(stop)
		_ = up.SetWriteDeadline(stop)
		wg.Go(func() {
			buf, got := make([]byte, 256<<10), 0
			for {
				n, err := down.Read(buf)
				got += n
				if err != nil {
					break
				}
			}
			mu.Lock()
			out.Bytes += got
			mu.Unlock()
		})
		wg.Go(func() {
			for {
				if _, err := up.Write(frame); err != nil {
					return
				}
			}
		})
	}
	err = poll.Until(ctx, 100*length, "the end of the load", func(context.Context) (bool, string) {
		most = max(most, memory())
		return time.Now().After(stop), ""
	})
	wg.Wait()
	out.Seconds = time.Since(began).Seconds()
	return most, err
}
