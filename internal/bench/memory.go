package main

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/protocol"
)

// standbys is how many there are when memory is measured.
const standbys = 64

// memory measures what a relay with many standbys takes: before, with all of them
// idle, and while all of them stream.
func (b *bench) memory(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := b.start(ctx, relayed, l.Addr().(*net.TCPAddr).Port, nil)
	if err != nil {
		return err
	}
	defer c.close()
	base := rss(c.pids...)
	var wg sync.WaitGroup
	defer wg.Wait()
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	for range standbys {
		down, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(c.port))
		if err != nil {
			return err
		}
		conns = append(conns, down)
		startup := protocol.StartupMessage{Version: protocol.ProtocolVersion3, Parameters: []protocol.StartupParameter{
			{Name: "user", Value: "x"}, {Name: "replication", Value: "true"}}}
		if _, err := down.Write(append(startup.Append(nil), startReplication...)); err != nil {
			return err
		}
		up, err := l.Accept()
		if err != nil {
			return err
		}
		conns = append(conns, up)
		if err := serveStartup(up); err != nil {
			return err
		}
		want := make([]byte, len(welcome)+len(protocol.AppendCopyBothResponse(nil)))
		if _, err := io.ReadFull(down, want); err != nil {
			return err
		}
	}
	idle := rss(c.pids...)
	stop := time.Now().Add(b.length)
	frame := walFrames(bulkFrame, bulkFrame)
	for i := 0; i < len(conns); i += 2 {
		down, up := conns[i], conns[i+1]
		wg.Go(func() { _, _ = io.Copy(io.Discard, down) })
		wg.Go(func() {
			for time.Now().Before(stop) {
				if _, err := up.Write(frame); err != nil {
					return
				}
			}
		})
	}
	busy := idle
	if err := poll.Until(ctx, 10*b.length, "the end of the load", func(context.Context) (bool, string) {
		busy = max(busy, rss(c.pids...))
		return time.Now().After(stop), ""
	}); err != nil {
		return err
	}
	b.report.value("base memory, MiB", plain(base/1024), p50, 20)
	b.report.value("memory of an idle standby, KiB", plain((idle-base)/standbys), p50, 64)
	b.report.value("memory of a busy standby, KiB", plain((busy-base)/standbys), p50, 256)
	return nil
}

// plain is a figure that was taken once.
func plain(v float64) map[string][]sample {
	return map[string][]sample{relayed: {{outcome: outcome{P50: v}}}}
}
