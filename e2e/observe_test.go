package e2e_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/metrics"
)

// TestDashboardAndAlerts: every metric that the dashboard and the alerts ask for is in
// an answer of the real binary, with the labels that they ask for. Those of a read
// replica are shown only where there is one.
func TestDashboardAndAlerts(t *testing.T) {
	t.Parallel()
	var expressions []string
	var dashboard any
	raw, err := os.ReadFile(filepath.Join("..", "deploy", "grafana", "whetstone.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &dashboard); err != nil {
		t.Fatal(err)
	}
	expressions = append(expressions, collect(dashboard, "expr")...)
	inDashboard := len(expressions)
	var rules any
	if raw, err = os.ReadFile(filepath.Join("..", "deploy", "prometheus", "rules.yml")); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, &rules); err != nil {
		t.Fatal(err)
	}
	expressions = append(expressions, collect(rules, "expr")...)
	if inDashboard < 30 || len(expressions)-inDashboard < 15 {
		t.Fatalf("%d expressions in the dashboard and %d in the rules: they are not read", inDashboard, len(expressions)-inDashboard)
	}

	p := startProcess(t, "sqlite")
	wanted := wantedMetrics(expressions)
	ofReplica := prometheus.NewRegistry()
	metrics.NewReplica(ofReplica)
	families, err := ofReplica.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	apptest.Eventually(t, "every metric is shown", func() bool { // some need a job that has run
		missing = missing[:0]
		shown := p.scrape(t)
		for _, f := range families {
			shown[f.GetName()] = nil
			for _, l := range f.GetMetric()[0].GetLabel() {
				shown[f.GetName()] = append(shown[f.GetName()], l.GetName())
			}
		}
		for name, labels := range wanted {
			has, ok := shown[name]
			if !ok {
				missing = append(missing, name)
			}
			for _, label := range labels {
				if ok && !slices.Contains(has, label) {
					missing = append(missing, name+"{"+label+"}")
				}
			}
		}
		if len(missing) > 0 {
			t.Logf("not shown yet: %v", missing)
			time.Sleep(time.Second) // 120 scrapes a minute are served
		}
		return len(missing) == 0
	})
}

// TestAlertRules runs the tests of the rules where Prometheus is installed.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: apt-get install prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = filepath.Join("..", "deploy", "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// collect finds all texts under a key.
func collect(v any, key string) (found []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if s, ok := value.(string); ok && name == key {
				found = append(found, s)
			}
			found = append(found, collect(value, key)...)
		}
	case []any:
		for _, value := range v {
			found = append(found, collect(value, key)...)
		}
	}
	return found
}

var (
	metricPattern = regexp.MustCompile(`\b((?:whetstone|go|process)_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	labelPattern  = regexp.MustCompile(`([a-z_]+)(?:=|!=|=~|!~)"`)
	samplePattern = regexp.MustCompile(`^([a-z0-9_]+)(?:\{(.*)\})? `)
)

// wantedMetrics are the metrics of expressions, with the labels that they select by.
func wantedMetrics(expressions []string) map[string][]string {
	wanted := map[string][]string{}
	for _, e := range expressions {
		for _, m := range metricPattern.FindAllStringSubmatch(e, -1) {
			labels := wanted[m[1]]
			for _, l := range labelPattern.FindAllStringSubmatch(m[2], -1) {
				if l[1] != "job" && l[1] != "instance" { // Prometheus adds them
					labels = append(labels, l[1])
				}
			}
			wanted[m[1]] = labels
		}
	}
	return wanted
}

// scrape returns the names of the metrics that the server shows, with their labels.
func (p *process) scrape(t *testing.T) map[string][]string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.client.HTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var page bytes.Buffer
	if _, err := page.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	shown := map[string][]string{}
	for line := range strings.Lines(page.String()) {
		if m := samplePattern.FindStringSubmatch(line); m != nil {
			labels := shown[m[1]]
			for _, l := range labelPattern.FindAllStringSubmatch(m[2], -1) {
				labels = append(labels, l[1])
			}
			shown[m[1]] = labels
		}
	}
	return shown
}
