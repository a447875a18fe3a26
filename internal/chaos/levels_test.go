package chaos

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/procstat"
	"github.com/slotferry/slotferry/internal/rig"
)

// levels are what must not grow, by name.
type levels map[string]int64

// measure takes the levels of a world that is at rest: of its processes from
// /proc and their metrics, of its servers from pg_replication_slots.
func (w *world) measure(ctx context.Context) (levels, error) {
	primary, standby := w.roles()
	l := levels{}
	for name, p := range map[string]*rig.Process{Helper: standby.Helper, Relay: primary.Relay} {
		if p == nil {
			continue // solo
		}
		if err := l.process(ctx, name, p); err != nil {
			return nil, err
		}
	}
	for name, s := range map[string]*cluster.Server{Primary: primary.Server, Standby: standby.Server} {
		for kind, where := range map[string]string{"temporary slots": "temporary", "slots": "NOT temporary"} {
			n, err := cluster.QueryValue[int64](ctx, s, databases[0], "SELECT count(*) FROM pg_replication_slots WHERE "+where)
			if err != nil {
				return nil, err
			}
			l[name+" "+kind] = n
		}
		n, err := cluster.QueryValue[int64](ctx, s, databases[0], `SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'slotferry%'`)
		if err != nil {
			return nil, err
		}
		l[name+" sessions"] = n
	}
	files, err := filepath.Glob(filepath.Join(w.cfg.Dir, standby.Name+"-state", "*"))
	l["state files"] = int64(len(files))
	return l, err
}

func (l levels) process(ctx context.Context, name string, p *rig.Process) error {
	resident := procstat.RSS(p.PID())
	if resident == 0 {
		return fmt.Errorf("%s: process %d is not there", name, p.PID())
	}
	l[name+" "+memory] = resident >> 10
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	if err != nil {
		return err
	}
	l[name+" descriptors"] = int64(len(fds))
	l[name+" goroutines"], err = goroutines(ctx, p)
	return err
}

// goroutines reads the number of goroutines from a process's metrics.
func goroutines(ctx context.Context, p *rig.Process) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL()+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), "go_goroutines "); found {
			return strconv.ParseInt(text, 10, 64)
		}
	}
	return 0, fmt.Errorf("no go_goroutines in the metrics of %s", p.URL())
}

const memory = "kB of memory"

// grown names what has grown: at its least in the last third of the samples it is
// more than at its most in the first third, by more than chance. One more each
// cycle is found in six cycles.
func grown(samples []levels) []string {
	var list []string
	third := len(samples) / 3
	for name := range samples[0] {
		least, most := samples[len(samples)-1][name], samples[0][name]
		for i := range third {
			least, most = min(least, samples[len(samples)-1-i][name]), max(most, samples[i][name])
		}
		allowed := int64(2)
		if strings.HasSuffix(name, memory) {
			allowed = most/4 + 8<<10
		}
		if least > most+allowed {
			list = append(list, fmt.Sprintf("%s: at most %d at first, at least %d in the end", name, most, least))
		}
	}
	slices.Sort(list)
	return list
}
