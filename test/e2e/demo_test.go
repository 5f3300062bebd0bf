package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// The demo's JSON lines satisfy every promise of the log, and nothing is left
// behind: no directory and no process.
func TestDemo(t *testing.T) {
	tmp := t.TempDir()
	p := procenv.Start(t, "demo", []string{"TMPDIR=" + tmp}, "demo", "--rounds", "6", "--pause", "500ms", "--output", "json")
	if code := p.Wait(4 * time.Minute); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	all := received(t, p)
	if last := all[len(all)-1]; last.Epoch < 7 {
		t.Errorf("six hand-overs ended in epoch %d", last.Epoch)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	procs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range procs {
		env, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(env), "TMPDIR="+tmp) && filepath.Base(filepath.Dir(f)) != strconv.Itoa(os.Getpid()) {
			t.Errorf("process %s is left behind", filepath.Base(filepath.Dir(f)))
		}
	}
}

// On a real cluster the candidates stand on a Lease, which is gone at the end.
func TestDemoOnACluster(t *testing.T) {
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	kubeconfig := kubeenv.Kubeconfig(t, api.Config(), namespace)
	p := procenv.Start(t, "demo", []string{"TMPDIR=" + t.TempDir()},
		"demo", "--kubeconfig", kubeconfig, "--namespace", namespace, "--rounds", "3", "--pause", "100ms", "--output", "json")
	client, err := election.NewLeaseClient(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	leases := client.Leases(namespace)
	testenv.Eventually(t, 30*time.Second, func() error {
		l, err := leases.Get(t.Context(), "leaderbridge-demo", metav1.GetOptions{})
		if err == nil && (l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "") {
			err = errors.New("nobody holds it")
		}
		return err
	})
	if code := p.Wait(2 * time.Minute); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	all := received(t, p)
	if last := all[len(all)-1]; last.Epoch < 4 || last.Election.Namespace != namespace {
		t.Errorf("three hand-overs ended in epoch %d of %s", last.Epoch, last.Election)
	}
	if _, err := leases.Get(t.Context(), "leaderbridge-demo", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Lease is left behind: %v", err)
	}
}

// received returns the events that the demo printed, which keep every promise.
func received(t *testing.T, p *procenv.Process) []events.Event {
	t.Helper()
	var all []events.Event
	for line := range strings.Lines(p.Stdout()) {
		if !json.Valid([]byte(line)) {
			t.Fatalf("not a line of JSON: %q", line)
		}
		e, err := events.Decode(nil, []byte(strings.TrimSpace(line)))
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, e)
	}
	checkLegal(t, all)
	return all
}
