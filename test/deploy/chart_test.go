package deploy

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/leaderbridge/leaderbridge/test/testenv/toolenv"
)

// sameAs are the values with which the chart installs what an overlay does. The
// chart has no sidecar, which belongs into the chart of whose pod it is.
var sameAs = map[string]string{
	"bridge":          `{}`,
	"watch-namespace": `{mode: watch, collector: {enabled: false}}`,
	"watch-cluster":   `{mode: watch, watch: {scope: cluster}, collector: {enabled: false}}`,
	"edge":            `{nats: {mode: leaf}, collector: {enabled: false}}`,
}

// chart renders the chart with values, which are YAML.
func chart(t *testing.T, release, namespace, values string) objects {
	t.Helper()
	return parse(t, helm(t, release, namespace, values).out)
}

// rendering is what helm has said.
type rendering struct {
	out, stderr []byte
	err         error
}

func (r rendering) must(t *testing.T) rendering {
	t.Helper()
	if r.err != nil {
		t.Fatalf("helm: %v\n%s", r.err, r.stderr)
	}
	for line := range strings.Lines(string(r.stderr)) {
		// The chart's files are those of deploy/nats, so that they are the same.
		if !strings.Contains(line, "found symbolic link") {
			t.Errorf("helm warns: %s", line)
		}
	}
	return r
}

func helm(t *testing.T, release, namespace, values string) rendering {
	t.Helper()
	return tryHelm(t, release, namespace, values).must(t)
}

func tryHelm(t *testing.T, release, namespace, values string) rendering {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(toolenv.Helm.Path(t), "template", release, shipped("helm", "leaderbridge"), "--namespace", namespace, "--values", file)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	return rendering{out, []byte(stderr.String()), err}
}

// The chart and the overlays are two ways to the same objects.
func TestChartAndOverlaysAgree(t *testing.T) {
	for overlay, values := range sameAs {
		t.Run(overlay, func(t *testing.T) {
			ours, theirs := plain(t, kustomize(t, overlay, "shop")), plain(t, chart(t, "leaderbridge", "shop", values))
			for _, name := range slices.Sorted(maps.Keys(ours)) {
				if theirs[name] == "" {
					t.Errorf("the chart has no %s", name)
				} else if ours[name] != theirs[name] {
					t.Errorf("%s differs:\n%s", name, difference(ours[name], theirs[name]))
				}
			}
			for name := range theirs {
				if ours[name] == "" {
					t.Errorf("the overlay has no %s", name)
				}
			}
		})
	}
}

// hashed is the suffix by which kustomize tells contents apart.
var hashed = regexp.MustCompile(`^(.*)-[bcdfghkmt2-9]{10}$`)

// plain writes each object in one form, without what each of the two tools adds
// for itself: a hash in the name of a ConfigMap, and labels that name helm.
func plain(t *testing.T, all objects) map[string]string {
	t.Helper()
	var renames []string
	for _, o := range all.of("ConfigMap") {
		if m := hashed.FindStringSubmatch(o.GetName()); m != nil {
			renames = append(renames, o.GetName(), m[1])
		}
	}
	named := strings.NewReplacer(renames...)
	texts := map[string]string{}
	for _, o := range all {
		labels := o.GetLabels()
		for _, own := range []string{"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version"} {
			delete(labels, own)
		}
		o.SetLabels(labels)
		text, err := json.Marshal(neutral(o.Object))
		if err != nil {
			t.Fatal(err)
		}
		if text, err = yaml.JSONToYAML(text); err != nil {
			t.Fatal(err)
		}
		texts[named.Replace(o.GetKind()+" "+o.GetName())] = named.Replace(string(text))
	}
	return texts
}

// neutral drops defaults that only one of the tools writes, and puts lists whose
// order means nothing in order.
func neutral(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for key, value := range v {
			switch {
			case key == "checksum/config", key == "imagePullPolicy" && value == string(corev1.PullIfNotPresent):
				continue
			}
			value = neutral(value)
			if empty, ok := value.(map[string]any); ok && len(empty) == 0 && key == "annotations" {
				continue
			}
			if list, ok := value.([]any); ok && slices.Contains([]string{"env", "volumes", "volumeMounts"}, key) {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(nameOf(a), nameOf(b)) })
			}
			m[key] = value
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = neutral(v[i])
		}
		return list
	default:
		return v
	}
}

func nameOf(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	name, _ := m["name"].(string)
	return name
}

// difference shows the lines that only one of two texts has.
func difference(ours, theirs string) string {
	var d strings.Builder
	only := func(mark, a, b string) {
		lines := strings.Split(b, "\n")
		for line := range strings.SplitSeq(a, "\n") {
			if !slices.Contains(lines, line) {
				d.WriteString(mark + line + "\n")
			}
		}
	}
	only("  overlay: ", ours, theirs)
	only("  chart:   ", theirs, ours)
	if d.Len() == 0 {
		return "  the same lines in another order"
	}
	return d.String()
}

// The API server takes in what the chart makes of every kind of values, under
// the names of another release.
func TestChart(t *testing.T) {
	for name, values := range map[string]string{
		"defaults":        `{}`,
		"external NATS":   `{nats: {mode: external, url: "tls://nats.example:4222", user: {secret: none}}, extraEnv: [{name: NATS_TOKEN, value: t}]}`,
		"watch":           `{mode: watch}`,
		"watch all":       `{mode: watch, watch: {scope: cluster, exclude: []}}`,
		"site":            `{nats: {mode: leaf, site: site-b, hubURL: "tls://hub.example:7422"}}`,
		"every other one": `{replicas: 5, image: {repository: example/leaderbridge, tag: "1.2.3", pullPolicy: Always}, imagePullSecrets: [{name: pull}], cluster: eu, lease: {name: scheduler.v2}, extraArgs: ["--log-level=debug"], nats: {storage: 10Gi}, collector: {config: {receivers: {otlp: {}}}}, nodeSelector: {kubernetes.io/os: linux}, tolerations: [{operator: Exists}], priorityClassName: ""}`,
	} {
		t.Run(name, func(t *testing.T) {
			namespace := strictNamespace(t)
			all := chart(t, "shop", namespace, values)
			admit(t, all, namespace)
			checkPods(t, all)
			for _, o := range all {
				if !strings.HasPrefix(o.GetName(), "shop-leaderbridge") {
					t.Errorf("%s %s does not bear the release's name", o.GetKind(), o.GetName())
				}
			}
		})
	}
}

// What cannot work is refused before anything is installed, by the name of the
// value.
func TestChartRefuses(t *testing.T) {
	for _, tt := range []struct{ values, want string }{
		{`{mode: stand}`, "mode"},
		{`{replica: 3}`, "replica"},
		{`{replicas: 0}`, "replicas"},
		{`{cluster: Über}`, "cluster"},
		{`{lease: {name: A_b}}`, "name"},
		{`{nats: {mode: external}}`, "url"},
		{`{nats: {mode: external, url: "http://nats"}}`, "url"},
		{`{nats: {image: nats}}`, "image"},
		{`{mode: watch, nats: {mode: leaf}}`, "mode"},
		{`{watch: {exclude: [all]}}`, "exclude"},
	} {
		r := tryHelm(t, "shop", "shop", tt.values)
		if r.err == nil || !strings.Contains(string(r.stderr), tt.want) {
			t.Errorf("%s: error %v, want one that names %s: %s", tt.values, r.err, tt.want, r.stderr)
		}
	}
}

// The chart passes helm's own checks, and can be packed: its files are there
// when the folders around it are not.
func TestChartIsSound(t *testing.T) {
	if out, err := exec.Command(toolenv.Helm.Path(t), "lint", "--strict", shipped("helm", "leaderbridge")).CombinedOutput(); err != nil {
		t.Errorf("helm lint: %v\n%s", err, out)
	}
	dir := t.TempDir()
	if out, err := exec.Command(toolenv.Helm.Path(t), "package", "--destination", dir, shipped("helm", "leaderbridge")).CombinedOutput(); err != nil {
		t.Fatalf("helm package: %v\n%s", err, out)
	}
	packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(packed) != 1 {
		t.Fatalf("helm package made %v (%v)", packed, err)
	}
	out, err := exec.Command(toolenv.Helm.Path(t), "template", "leaderbridge", packed[0], "--namespace", "shop").Output()
	if err != nil {
		t.Fatalf("helm template of the package: %v", err)
	}
	if from := string(helm(t, "leaderbridge", "shop", "{}").out); string(out) != from {
		t.Errorf("the package renders another text than the folder:\n%s", difference(string(out), from))
	}
}
