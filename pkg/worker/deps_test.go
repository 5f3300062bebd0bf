package worker

import (
	"os/exec"
	"strings"
	"testing"
)

// A worker has no Kubernetes credentials, and its programs must not pay for a
// Kubernetes client in size and start-up time.
func TestNoKubernetesPackageIsPulledIn(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 50 {
		t.Fatalf("only %d packages listed, the test is broken", len(deps))
	}
	for _, d := range deps {
		if strings.HasPrefix(d, "k8s.io/") || strings.HasPrefix(d, "sigs.k8s.io/") {
			t.Errorf("pkg/worker depends on %s", d)
		}
	}
}
