package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/procstat"
)

// contestant is one way of bringing slots to a standby.
type contestant struct {
	server *cluster.Server // the standby

	// ready names the slots that may be failed over to now.
	ready func(ctx context.Context) ([]string, error)

	// processes are those on the standby's side whose CPU time counts, readers the
	// sessions on the primary by which slots are read.
	processes, readers func(ctx context.Context) ([]int, error)

	// promoted waits until nothing more is done to the slots after a promotion.
	promoted func(ctx context.Context) error
}

// pairOf is a figure, or whatever else there is, of each contestant.
type pairOf[T any] struct {
	Slotferry T `json:"slotferry"`
	Worker    T `json:"slot_sync_worker"`
}

// ferry is the standby that the helper keeps slots on. A slot is ready when the
// helper says so: that is a moment after it can be used.
func (b *bench) ferry() *contestant {
	node := b.pair.B
	return &contestant{
		server: node.Server,
		ready: func(ctx context.Context) (names []string, err error) {
			doc, err := node.Status(ctx)
			if err != nil {
				return nil, err
			}
			for i := range doc.Slots {
				if doc.Slots[i].State == decoder.StateReady {
					names = append(names, doc.Slots[i].Name)
				}
			}
			return names, nil
		},
		processes: func(ctx context.Context) ([]int, error) {
			pids, err := pidsOf(ctx, node.Server, "application_name = 'slotferry helper'")
			return append(pids, node.Helper.PID()), err
		},
		readers: func(ctx context.Context) ([]int, error) {
			return pidsOf(ctx, b.pair.A.Server, "application_name = 'slotferry relay'")
		},
		promoted: func(ctx context.Context) error {
			return poll.Until(ctx, readyTimeout, "the report of the promotion", func(ctx context.Context) (bool, string) {
				doc, err := node.Status(ctx)
				return err == nil && doc.Promotion != nil && doc.Role == decoder.RolePrimary, fmt.Sprint(err)
			})
		},
	}
}

// worker is the standby of the slot sync worker. A slot is ready when it is
// persistent: until then the worker keeps it temporary (slotsync.c).
func (b *bench) worker() *contestant {
	return &contestant{
		server: b.peer,
		ready: func(ctx context.Context) ([]string, error) {
			return cluster.QueryColumn[string](ctx, b.peer, "postgres",
				"SELECT slot_name::text FROM pg_replication_slots WHERE synced AND NOT temporary AND invalidation_reason IS NULL")
		},
		processes: func(ctx context.Context) ([]int, error) {
			return pidsOf(ctx, b.peer, "backend_type = 'slotsync worker'")
		},
		readers: func(ctx context.Context) ([]int, error) {
			// Its application_name is that of primary_conninfo.
			return pidsOf(ctx, b.pair.A.Server, "application_name = 'peer' AND backend_type = 'client backend'")
		},
		promoted: func(context.Context) error { return nil }, // it ends before the server is writable
	}
}

func pidsOf(ctx context.Context, s *cluster.Server, which string) ([]int, error) {
	return cluster.QueryColumn[int](ctx, s, "postgres", "SELECT pid FROM pg_stat_activity WHERE "+which)
}

// used is the CPU time of processes so far, one by one: sessions come and go.
type used map[int]time.Duration

func useOf(pids []int) used {
	u := used{}
	for _, pid := range pids {
		u[pid] = procstat.CPU(pid)
	}
	return u
}

// since adds up what those that are there now have used since an earlier look.
func (u used) since(before used) (sum time.Duration) {
	for pid, cpu := range u {
		sum += cpu - before[pid]
	}
	return sum
}

// loadAverage is the machine's, of the last minute.
func loadAverage() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}
