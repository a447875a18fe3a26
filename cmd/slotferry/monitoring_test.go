package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

const (
	rulesFile     = packaging + "/prometheus/slotferry.rules.yml"
	dashboardFile = packaging + "/grafana/slotferry.json"
)

// ruleFile is a file of alert rules, as far as it is looked at.
type ruleFile struct {
	Groups []ruleGroup `yaml:"groups"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

type rule struct {
	Alert  string `yaml:"alert,omitempty"`
	Record string `yaml:"record,omitempty"`
	Expr   string `yaml:"expr"`
}

// dashboard is Grafana's, as far as it is looked at.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name  string
			Query any
		}
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ X, Y, W, H int }
		Targets                  []struct{ RefID, Expr string }
	}
}

func readRules(t *testing.T) ruleFile {
	t.Helper()
	var f ruleFile
	text, err := os.ReadFile(rulesFile)
	if err == nil {
		err = yaml.Load(text, &f)
	}
	if err != nil || len(f.Groups) == 0 {
		t.Fatalf("%s: %v, %+v", rulesFile, err, f)
	}
	return f
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	text, err := os.ReadFile(dashboardFile)
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil || len(d.Panels) < 10 {
		t.Fatalf("%s: %v, %d panels", dashboardFile, err, len(d.Panels))
	}
	return d
}

// expressions are all that is asked of Prometheus, by where it is asked.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			all["alert "+r.Alert] = r.Expr
		}
	}
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			all[fmt.Sprintf("panel %s %s", p.Title, target.RefID)] = target.Expr
		}
	}
	return all
}

var (
	metricName = regexp.MustCompile(`\bslotferry_[a-z0-9_]+`)
	metricType = regexp.MustCompile(`(?m)^# TYPE (\S+)`)
)

// metricNames adds the names of all metrics that processes have now.
func metricNames(t *testing.T, into map[string]bool, daemons ...*daemon) {
	t.Helper()
	for _, d := range daemons {
		_, text := get(t, d, "/metrics")
		for _, m := range metricType.FindAllStringSubmatch(text, -1) {
			into[m[1]] = true
		}
	}
}

// usesOnlyMetricsOf fails for every metric of the dashboard and the alert rules that
// no process has. An alert on a metric that is gone never fires.
func usesOnlyMetricsOf(t *testing.T, have map[string]bool) {
	t.Helper()
	used := expressions(t)
	for _, v := range readDashboard(t).Templating.List {
		used["variable "+v.Name] = fmt.Sprint(v.Query)
	}
	for where, expr := range used {
		for _, name := range metricName.FindAllString(expr, -1) {
			if !have[name] {
				t.Errorf("%s asks for %s, which no process has", where, name)
			}
		}
	}
}

// TestAlertRules has promtool load the rules, and play the cases beside them.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	promtool := needTool(t, "promtool", "prometheus")
	for _, args := range [][]string{
		{"check", "rules", rulesFile},
		{"test", "rules", strings.TrimSuffix(rulesFile, ".rules.yml") + ".test.yml"},
	} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	text, err := os.ReadFile(strings.TrimSuffix(rulesFile, ".rules.yml") + ".test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if !strings.Contains(string(text), "alertname: "+r.Alert+"\n") {
				t.Errorf("no case has %s fire", r.Alert)
			}
		}
	}
}

// TestDashboard checks what Grafana would: panels with a place of their own and
// expressions that Prometheus can read.
func TestDashboard(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	if d.UID == "" || d.Title == "" || d.SchemaVersion == 0 {
		t.Errorf("dashboard is %q, %q, %d", d.UID, d.Title, d.SchemaVersion)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("panel %d %q lacks something, or its number is another's", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q lies on %q, or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	// As recording rules, which promtool can read.
	group := ruleGroup{Name: "dashboard"}
	for _, expr := range expressions(t) {
		expr = strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*", "$slot", ".*").Replace(expr)
		group.Rules = append(group.Rules, rule{Record: fmt.Sprintf("x:%d", len(group.Rules)), Expr: expr})
	}
	text, err := yaml.Dump(ruleFile{Groups: []ruleGroup{group}})
	path := filepath.Join(t.TempDir(), "rules.yml")
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(needTool(t, "promtool", "prometheus"), "check", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
