package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/leaderbridge/leaderbridge/internal/telemetry/failover"
	"github.com/leaderbridge/leaderbridge/test/testenv/toolenv"
)

const (
	dashboards  = "../../deploy/dashboards"
	metricsPage = "../../docs/metrics.md"
	tracingPage = "../../docs/tracing.md"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// docs/metrics.md lists what a scrape gives: no metric more, and none less.
func TestMetricsPage(t *testing.T) {
	x := expose(t)
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z]+) \\| ([^|]*) \\| ([^|]+) \\|$")
	listed := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(read(t, metricsPage), -1) {
		name, kind, labels, text := m[1], m[2], m[3], m[4]
		if listed[name] {
			t.Errorf("%s is listed twice", name)
		}
		listed[name] = true
		f := x.families[name]
		if f == nil {
			t.Errorf("%s is listed, and no process has it", name)
			continue
		}
		if want := strings.ToLower(f.GetType().String()); kind != want {
			t.Errorf("%s is listed as a %s, and is a %s", name, kind, want)
		}
		if text != f.GetHelp() {
			t.Errorf("%s is listed as %q, and says %q", name, text, f.GetHelp())
		}
		have := x.series[name]
		if have == nil {
			have = x.series[name+"_count"]
		}
		var want []string
		for _, l := range have {
			want = append(want, "`"+l+"`")
		}
		if got := strings.Join(want, " "); labels != got {
			t.Errorf("%s is listed with the labels %q, and has %q", name, labels, got)
		}
	}
	for _, name := range x.own() {
		if !listed[name] {
			t.Errorf("%s is not listed", name)
		}
	}
}

// The example in docs/tracing.md is what the code computes.
func TestTracingPage(t *testing.T) {
	page := read(t, tracingPage)
	const source, epoch = "/clusters/default/namespaces/prod/leases/scheduler", 7
	for _, want := range []string{
		fmt.Sprintf("%s#%d", source, epoch),
		failover.TraceID(source, epoch).String(),
		failover.RootSpanID(source, epoch).String(),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
	for _, name := range []string{"election failover", string(failover.Drain), string(failover.Release),
		string(failover.Observe), string(failover.Acquire), "worker start", "worker stop"} {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the page does not tell of the span %q", name)
		}
	}
}

// queries are those of a file, by where they stand in it.
type queries map[string]string

// Grafana's own types read the dashboard, and know every field of it.
func loadDashboard(t *testing.T) queries {
	t.Helper()
	plugins.RegisterDefaultPlugins()
	raw := read(t, filepath.Join(dashboards, "leaderbridge.json"))
	var d dashboard.Dashboard //nolint:staticcheck // the classic model: deploy/dashboards/README.md says why
	// Its nil slice of errors is not a nil error.
	if err := d.UnmarshalJSONStrict([]byte(raw)); err != nil && err.Error() != "" {
		t.Fatal(err)
	}
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	var plain struct {
		Annotations struct {
			List []struct{ Name, Expr string }
		}
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, RefID string }
		}
	}
	if err := json.Unmarshal([]byte(raw), &plain); err != nil {
		t.Fatal(err)
	}
	q := queries{}
	ids := map[int]bool{}
	for _, p := range plain.Panels {
		if ids[p.ID] {
			t.Errorf("panel %q has the id of another", p.Title)
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q leaves the grid", p.Title)
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			q[p.Title+" "+target.RefID] = target.Expr
		}
	}
	for _, a := range plain.Annotations.List {
		if a.Expr != "" {
			q["annotation "+a.Name] = a.Expr
		}
	}
	return q
}

// Every query of the dashboard and of the alerts parses, and asks only for
// metrics and labels that a process really exposes.
func TestQueriesAskForWhatIsThere(t *testing.T) {
	x := expose(t)
	all := loadDashboard(t)
	variables := regexp.MustCompile(`label_values\((.*), ([a-z_]+)\)`)
	for i, m := range variables.FindAllStringSubmatch(strings.ReplaceAll(read(t, filepath.Join(dashboards, "leaderbridge.json")), `\"`, `"`), -1) {
		all[fmt.Sprintf("variable %d", i)] = "count by (" + m[2] + ") (" + m[1] + ")"
	}
	rule := regexp.MustCompile(`(?m)^        expr: (\|\n((?:          .*\n)+)|.*)`)
	for i, m := range rule.FindAllStringSubmatch(read(t, filepath.Join(dashboards, "alerts.yaml")), -1) {
		expr := m[1]
		if m[2] != "" {
			expr = m[2]
		}
		all[fmt.Sprintf("alert %d", i)] = expr
	}
	if len(all) < 30 {
		t.Errorf("only %d queries found", len(all))
	}

	where := make([]string, 0, len(all))
	for w := range all {
		where = append(where, w)
	}
	slices.Sort(where)
	list := make([]string, len(where))
	for i, w := range where {
		list[i] = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h").Replace(all[w])
	}
	uses := parse(t, list)
	// What Prometheus adds to every series.
	added := []string{"instance", "job"}
	for i, u := range uses {
		var labels []string
		for _, name := range u.Metrics {
			l, ok := x.series[name]
			if !ok {
				t.Errorf("%s: no process has %s", where[i], name)
			}
			labels = append(labels, l...)
		}
		for _, l := range u.Labels {
			if !slices.Contains(labels, l) && !slices.Contains(added, l) {
				t.Errorf("%s: %v has no label %s", where[i], u.Metrics, l)
			}
		}
	}

	// And the other way round: an alert is worth a panel.
	used := map[string]bool{}
	for _, u := range uses {
		for _, name := range u.Metrics {
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				if family := strings.TrimSuffix(name, suffix); x.families[family] != nil {
					name = family
				}
			}
			used[name] = true
		}
	}
	for _, name := range x.own() {
		if !used[name] && !slices.Contains(notShown, name) {
			t.Errorf("%s is on no panel", name)
		}
	}
}

// notShown are metrics for those who look into one thing.
var notShown = []string{
	"leaderbridge_last_error_timestamp_seconds",
	"leaderbridge_watch_elections",
	"rest_client_rate_limiter_duration_seconds",
	"rest_client_request_retries_total",
}

type uses struct{ Metrics, Labels []string }

// parse has Prometheus's parser say what queries ask for.
func parse(t *testing.T, list []string) []uses {
	t.Helper()
	in, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(t, toolenv.Queries, in)
	if err != nil {
		t.Fatal(err)
	}
	var answers []uses
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatal(err)
	}
	return answers
}

func run(t *testing.T, tool toolenv.Tool, in []byte, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.Command(tool.Path(t), args...)
	cmd.Stdin = bytes.NewReader(in)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w\n%s%s", err, &out, &log)
	}
	return out.Bytes(), nil
}

// promtool checks the alerts, and runs their unit tests.
func TestAlerts(t *testing.T) {
	for _, args := range [][]string{
		{"check", "rules", "--lint-fatal", filepath.Join(dashboards, "alerts.yaml")},
		{"test", "rules", filepath.Join(dashboards, "alerts_test.yaml")},
	} {
		if out, err := run(t, toolenv.Promtool, nil, args...); err != nil {
			t.Errorf("promtool %s: %v%s", strings.Join(args, " "), err, out)
		}
	}
	tested := read(t, filepath.Join(dashboards, "alerts_test.yaml"))
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(read(t, filepath.Join(dashboards, "alerts.yaml")), -1) {
		if !strings.Contains(tested, "alertname: "+m[1]+"\n") {
			t.Errorf("%s has no test", m[1])
		}
	}
}

// Prometheus accepts our names: no counter without _total, no unit left out.
func TestPromtoolLikesTheMetrics(t *testing.T) {
	body := scrape(t, reportEverything(t).Handler, "")
	if out, err := run(t, toolenv.Promtool, []byte(body), "check", "metrics"); err != nil {
		t.Errorf("promtool check metrics: %v%s", err, out)
	}
}
