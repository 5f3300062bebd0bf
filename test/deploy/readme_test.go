package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leaderbridge/leaderbridge/test/testenv/toolenv"
)

// The overlay that the README tells people to write works, and names the Lease
// both where it is stood for and where it is allowed.
func TestOverlayOfTheReadme(t *testing.T) {
	text, err := os.ReadFile(shipped("README.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(# kustomization.yaml\n.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("deploy/README.md shows no kustomization.yaml")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Rel(dir, shipped())
	if err != nil {
		t.Fatal(err)
	}
	mine := strings.Replace(string(block[1]), "[deploy/", "["+path+"/", 1)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	all := render(t, toolenv.Kustomize.Path(t), "build", dir)
	namespace := strictNamespace(t)
	for _, o := range all {
		o.SetNamespace(namespace)
	}
	admit(t, all, namespace)
	checkPods(t, all)
	bridge := podOf(t, all, "leaderbridge").Containers[0]
	if lease := valueOf(bridge, "LEADERBRIDGE_LEASE_LOCK_NAME"); lease != "scheduler" {
		t.Errorf("the bridge stands for %q", lease)
	}
	if bridge.Image != "REGISTRY/leaderbridge:0.1.0" {
		t.Errorf("the bridge's image is %q", bridge.Image)
	}
}

// What is installed beside the bridge has the version that the tests use.
func TestImagesAreWhatIsTested(t *testing.T) {
	for image, module := range map[string]struct{ folder, path string }{
		"nats":                         {".", "github.com/nats-io/nats-server/v2"},
		"otel/opentelemetry-collector": {"test/otel", "go.opentelemetry.io/collector/receiver/otlpreceiver"},
	} {
		gomod, err := os.ReadFile(shipped("..", filepath.FromSlash(module.folder), "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		version := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(module.path) + ` v(\S+)`).FindSubmatch(gomod)
		if version == nil {
			t.Fatalf("%s/go.mod does not require %s", module.folder, module.path)
		}
		want := fmt.Sprintf("%s:%s", image, version[1])
		found := 0
		for _, w := range workloads(t, kustomize(t, "bridge", "shop")) {
			for _, c := range containers(w.template.Spec) {
				if strings.HasPrefix(c.Image, image+":") {
					found++
					if c.Image != want {
						t.Errorf("%s runs %s, the tests use %s", w.name, c.Image, want)
					}
				}
			}
		}
		if found == 0 {
			t.Errorf("nothing runs %s", image)
		}
	}
}
