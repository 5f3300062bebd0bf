package docs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// What stands between "docs:" and "docs end" is shown in docs/migrating.md.

// docs: client-go before
func clientGo(ctx context.Context, cfg *rest.Config, namespace, id string, work func(context.Context), standby func(leader string)) {
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: "scheduler"},
			Client:     kubernetes.NewForConfigOrDie(cfg).CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: id},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: work,
			OnStoppedLeading: func() {},
			OnNewLeader:      standby,
		},
	})
}

// docs end

// docs: client-go after
func leaderbridge(ctx context.Context, cfg *rest.Config, namespace, id string, work func(context.Context), standby func(leader string)) error {
	client, err := election.NewLeaseClient(cfg)
	if err != nil {
		return err
	}
	lock, err := election.NewLeaseLock(client, namespace, "scheduler")
	if err != nil {
		return err
	}
	e, err := election.New(lock, election.Options{
		Identity: id,
		Lead: func(ctx context.Context, _ *election.Term) error {
			work(ctx) // the Lease is held until this returns
			return nil
		},
		Observe: func(s election.State) { // must not block
			if s.Status == election.Held {
				standby(s.Holder())
			}
		},
	})
	if err != nil {
		return err
	}
	return e.Run(ctx) // stands again after a lost term
}

// docs end

// docs: controller-runtime before
func managerBefore(ctx context.Context, cfg *rest.Config, namespace string, work func(context.Context) error) error {
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		LeaderElection:          true,
		LeaderElectionID:        "scheduler",
		LeaderElectionNamespace: namespace,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(work)); err != nil {
		return err
	}
	return mgr.Start(ctx) // an error, and the end of the process, when the Lease is lost
}

// docs end

// docs: controller-runtime after
func managerAfter(ctx context.Context, cfg *rest.Config, nc *nats.Conn, namespace string, work worker.Handler) error {
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, // and no leader election
	})
	if err != nil {
		return err
	}
	w, err := worker.New(nc, worker.Options{
		Election: events.Election{Cluster: "default", Namespace: namespace, Lease: "scheduler"},
		Role:     "reconciler",
		Handler:  work, // gets the term, with its epoch for fencing
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(w.Run)); err != nil {
		return err
	}
	return mgr.Start(ctx) // goes on as a standby when the grant is lost
}

// docs end

// docs: sidecar
func leader(ctx context.Context, url string) (string, error) { // "http://localhost:4040/"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct{ Name string }
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer.Name, err
}

// docs end

// The Go code of the page is what is compiled and run here.
func TestMigratingShowsThisCode(t *testing.T) {
	source := read(t, filepath.Join("test", "docs", "migrating_test.go"))
	regions := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?s)\n// docs: [a-z -]+\n(.*?)\n// docs end\n`).FindAllStringSubmatch(source, -1) {
		regions[strings.TrimSpace(m[1])] = false
	}
	for _, b := range blocks(t, "docs/migrating.md") {
		if b.info != "go" {
			continue
		}
		if _, ok := regions[strings.TrimSpace(b.text)]; !ok {
			t.Errorf("%s:%d: this code is not in test/docs/migrating_test.go", b.page, b.line)
		}
		regions[strings.TrimSpace(b.text)] = true
	}
	for text, shown := range regions {
		if !shown {
			t.Errorf("docs/migrating.md does not show\n%s", text)
		}
	}
}

// log collects what happens, from several goroutines.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *log) await(t *testing.T, line string) {
	t.Helper()
	testenv.Eventually(t, time.Minute, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !slices.Contains(l.lines, line) {
			return fmt.Errorf("no %q among %q", line, l.lines)
		}
		return nil
	})
}

// Replicas of the old and of the new program stand in one election while they
// are rolled out, in whichever order.
func TestMigratingFromClientGo(t *testing.T) {
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	var happened log
	var all sync.WaitGroup
	start := func(id string, old bool) (stop context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		work := func(ctx context.Context) {
			happened.add(id + " begins")
			<-ctx.Done()
			happened.add(id + " ends")
		}
		standby := func(leader string) { happened.add(id + " sees " + leader) }
		all.Go(func() {
			if old {
				clientGo(ctx, api.Config(), namespace, id, work, standby)
			} else if err := leaderbridge(ctx, api.Config(), namespace, id, work, standby); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(cancel)
		return cancel
	}
	t.Cleanup(all.Wait)
	stopOld := start("old", true)
	happened.await(t, "old begins")
	stopNew := start("new", false)
	happened.await(t, "new sees old")
	stopOld()
	happened.await(t, "new begins")
	start("late", true)
	happened.await(t, "late sees new")
	stopNew()
	happened.await(t, "late begins")
}

// A manager whose work was guarded by the Lease becomes a worker.
func TestMigratingFromControllerRuntime(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	api := kubeenv.Shared(t)
	server := natsenv.Start(t)
	namespace := api.Namespace(t)
	kubeconfig := kubeenv.Kubeconfig(t, api.Config(), namespace)

	var happened log
	before, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(stop)
	all.Go(func() {
		err := managerBefore(before, api.Config(), namespace, func(ctx context.Context) error {
			happened.add("before")
			<-ctx.Done()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	happened.await(t, "before")
	stop()

	procenv.Start(t, "candidate", nil, "run", "--lease-lock-name", "scheduler", "--kubeconfig", kubeconfig,
		"--nats-url", server.URL(), "--http-addr", "")
	after, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	all.Go(func() {
		err := managerAfter(after, api.Config(), server.Connect(t), namespace, func(ctx context.Context, term worker.Term) error {
			happened.add(fmt.Sprintf("after, in term %d", term.Epoch))
			<-ctx.Done()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	happened.await(t, "after, in term 2") // the manager's was the first
	stop()
}

// A program that asked the leader-elector sidecar asks leaderbridge.
func TestMigratingFromTheSidecar(t *testing.T) {
	server := natsenv.Start(t)
	port, err := testenv.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	procenv.Start(t, "pod-0", nil, "run", "--lock", "nats", "--lease-lock-name", "scheduler", "--id", "pod-0",
		"--nats-url", server.URL(), "--http-addr", fmt.Sprintf("127.0.0.1:%d", port))
	testenv.Eventually(t, time.Minute, func() error {
		name, err := leader(t.Context(), fmt.Sprintf("http://127.0.0.1:%d/", port))
		if err == nil && name != "pod-0" {
			err = fmt.Errorf("%q leads", name)
		}
		return err
	})
	http.DefaultClient.CloseIdleConnections()
}
