package rules_test

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// importRule forbids what some packages import, directly or through others.
type importRule struct {
	name string
	// The rule holds for every package below one of these prefixes, except
	// for what is below one of the prefixes in but.
	packages, but []string
	// forbidden are prefixes of import paths. standardOnly forbids all that is
	// neither in the standard library nor under the rule itself.
	forbidden    []string
	standardOnly bool
	why          string
}

var importRules = []importRule{
	{
		name:         "the core is standard library only",
		packages:     []string{"pkg/election/internal/core"},
		standardOnly: true,
		why:          "the core is a function from state, input and time to state and actions; what is not in it cannot block it, race with it or surprise it",
	},
	{
		name:      "the core waits for nothing",
		packages:  []string{"pkg/election/internal/core"},
		forbidden: []string{"net", "os/exec", "log", "context"},
		why:       "no I/O, no clock and no goroutine inside: what should happen leaves as data",
	},
	{
		name:      "an election needs no NATS",
		packages:  []string{"pkg/election"},
		but:       []string{"pkg/election/natskv"},
		forbidden: []string{"github.com/nats-io/", module + "/pkg/events", module + "/pkg/worker"},
		why:       "leadership on a Lease must not depend on NATS, and pkg/election is usable alone; only the NATS KV lock in pkg/election/natskv speaks NATS",
	},
	{
		name:      "the contract needs no Kubernetes",
		packages:  []string{"pkg/events", "pkg/worker"},
		forbidden: []string{"k8s.io/", "sigs.k8s.io/", module + "/pkg/election"},
		why:       "subscribers and workers need only NATS: they have no Kubernetes credentials and should not carry its client",
	},
	{
		name:      "libraries leave telemetry and flags to their users",
		packages:  []string{"pkg"},
		but:       []string{"pkg/election/locktest"},
		forbidden: []string{"testing", "go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters", "github.com/spf13/"},
		why:       "whoever uses a library chooses the exporter and the command line; libraries speak to the OpenTelemetry API only",
	},
	{
		name:      "the command carries no test tools",
		packages:  []string{"cmd"},
		forbidden: []string{"testing", "sigs.k8s.io/controller-runtime", "go.uber.org/goleak", "pgregory.net/rapid", module + "/test"},
		why:       "what is shipped must not contain what only tests need; package testing also adds flags",
	},
}

// packageInfo is what "go list -json" prints, as far as it is needed here.
type packageInfo struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

func TestImports(t *testing.T) {
	t.Parallel()
	source(t)
	graph := map[string]packageInfo{}
	listed := json.NewDecoder(strings.NewReader(goCommand(t, root(t), "list", "-deps", "-json=ImportPath,Standard,Imports", "./...")))
	for {
		var p packageInfo
		if err := listed.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("read the output of go list: %v", err)
		}
		graph[p.ImportPath] = p
	}
	for _, rule := range importRules {
		t.Run(strings.ReplaceAll(rule.name, " ", "-"), func(t *testing.T) {
			for _, chain := range rule.broken(t, graph) {
				t.Errorf("%s\nimports what it must not: %s", strings.Join(chain, "\n  imports "), rule.why)
			}
		})
	}
}

// broken returns the shortest chain of imports to each forbidden package. What
// is imported by a forbidden package is not followed further.
func (r importRule) broken(t *testing.T, graph map[string]packageInfo) [][]string {
	t.Helper()
	var queue [][]string
	seen := map[string]bool{}
	for path := range graph {
		local := strings.TrimPrefix(path, module+"/")
		if local != path && below(local, r.packages) && !below(local, r.but) {
			queue = append(queue, []string{path})
			seen[path] = true
		}
	}
	if len(queue) == 0 {
		t.Fatalf("no package is below %v: the rule has lost its subject", r.packages)
	}
	subjects := len(queue)
	var chains [][]string
	for i := 0; i < len(queue); i++ {
		chain := queue[i]
		info := graph[chain[len(chain)-1]]
		if i >= subjects && (below(info.ImportPath, r.forbidden) || r.standardOnly && !info.Standard) {
			chains = append(chains, chain)
			continue
		}
		if info.Standard && !slices.ContainsFunc(r.forbidden, func(f string) bool { return graph[f].Standard }) {
			continue // The standard library imports nothing but itself.
		}
		for _, next := range info.Imports {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, append(slices.Clone(chain), next))
			}
		}
	}
	return chains
}

// below reports whether path is one of the prefixes or below one.
func below(path string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return path == prefix || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/")
	})
}

func TestImportRulesCatchWhatComesThroughOthers(t *testing.T) {
	t.Parallel()
	graph := map[string]packageInfo{}
	for path, imports := range map[string]string{
		module + "/pkg/a":      "fmt " + module + "/pkg/b",
		module + "/pkg/b":      "bad.io/x",
		module + "/pkg/a/free": "bad.io/x",
		"bad.io/x":             "bad.io/y",
		"bad.io/y":             "",
		"bad.iota":             "",
	} {
		graph[path] = packageInfo{ImportPath: path, Imports: strings.Fields(imports)}
	}
	graph["fmt"] = packageInfo{ImportPath: "fmt", Standard: true}
	rule := importRule{packages: []string{"pkg/a"}, but: []string{"pkg/a/free"}, forbidden: []string{"bad.io/"}}
	chains := rule.broken(t, graph)
	if len(chains) != 1 || strings.Join(chains[0], " ") != module+"/pkg/a "+module+"/pkg/b bad.io/x" {
		t.Errorf("chains %v, want the one from pkg/a through pkg/b to bad.io/x", chains)
	}
	rule = importRule{packages: []string{"pkg/a"}, standardOnly: true}
	if chains := rule.broken(t, graph); len(chains) != 2 {
		t.Errorf("chains %v, want those to pkg/b and bad.io/x", chains)
	}
}
