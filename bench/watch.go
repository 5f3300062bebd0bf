package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
)

// watching measures "leaderbridge watch" on the Leases of a large cluster: ten
// thousand, each renewed every ten seconds. In each minute one in a hundred
// ceases to be renewed, and one in a hundred changes hands. The floor is an
// informer of client-go's that keeps the same Leases up to date and does nothing
// with them. Both are processes of their own and see the same updates at the
// same time. How late transitions are stored is measured afterwards, by ours
// alone.
func watching(s *site) []row {
	namespace := s.kube().Namespace(s)
	kubeconfig := kubeenv.Kubeconfig(s, s.config(), namespace)
	s.openLog()
	f := s.fleet(namespace, s.pick(2000, 10_000))
	s.progress("makes %d Leases", len(f.members))
	f.create()
	f.renew()

	port, err := testenv.FreePort()
	s.must(err)
	floor := s.play("informer", kubeconfig, namespace)
	ours := s.start("watch", "--namespace", namespace, "--cluster", "bench", "--report-delay", "0",
		"--kubeconfig", kubeconfig, "--nats-url", s.log().URL(), "--http-addr", "127.0.0.1:"+strconv.Itoa(port))
	ours.ready(port)
	sub := s.collect(namespace)
	s.until("all Leases are in the log", func() bool { return sub.elections() == len(f.members) })
	s.progress("all Leases are in the log")

	window := time.Duration(s.pick(15, 60)) * time.Second
	before := [2]usage{ours.usage(), floor.usage()}
	renewed, began := f.renewed.Load(), time.Now()
	s.pause(window)
	took := time.Since(began)
	after := [2]usage{ours.usage(), floor.usage()}
	rate := float64(f.renewed.Load()-renewed) / took.Seconds()
	cpu := func(i int) float64 { return 100 * (after[i].cpu - before[i].cpu) / took.Seconds() }

	// The API server of this machine has no processor time left: without the
	// informer there is a little.
	floor.kill()
	f.settle()
	reads := f.read()
	s.pause(window)
	f.stop()
	read := reads()
	changes, lapses, missing := f.latencies(sub.all())
	if missing > 0 {
		s.Errorf("%d transitions are not in the log", missing)
	}
	all := slices.Concat(changes, lapses)
	burst := f.burst(sub, s.pick(200, 1000))

	of := fmt.Sprintf("watch, %d Leases: ", len(f.members))
	return append([]row{
		row{Name: of + "updates", Unit: "1/s", Ours: rate, Floor: f.rate()}.
			against("", func(row) bool { return true }),
		row{Name: of + "processor time", Unit: "% of one", Ours: cpu(0), Floor: cpu(1)}.
			against("≤ 1.5 × an idle informer's", func(r row) bool { return r.Ratio <= 1.5 }),
		row{Name: of + "memory", Unit: "MB resident", Ours: after[0].resident, Floor: after[1].resident}.
			against("≤ 150", func(r row) bool { return r.Ours <= 150 }),
		row{Name: of + "transition → stored, p99", Unit: "ms", Samples: len(all), Ours: all.p99()}.
			against("≤ 100", func(r row) bool { return r.Ours <= 100 }),
		row{Name: of + "change → stored, p50", Unit: "ms", Samples: len(changes), Ours: changes.p50()}.
			against("", func(row) bool { return true }),
		row{Name: of + "change → stored, p99", Unit: "ms", Samples: len(changes), Ours: changes.p99()}.
			against("", func(row) bool { return true }),
		row{Name: of + "lapse → stored, p50; floor: to read one Lease", Unit: "ms", Samples: len(lapses), Ours: lapses.p50(), Floor: read.p50()}.
			against("", func(row) bool { return true }),
		row{Name: of + "lapse → stored, p99; floor: to read one Lease", Unit: "ms", Samples: len(lapses), Ours: lapses.p99(), Floor: read.p99()}.
			against("", func(row) bool { return true }),
	}, burst...)
}

// usage is what a process has used.
type usage struct {
	cpu      float64 // seconds
	resident float64 // megabytes
}

func (p *process) usage() usage {
	proc, err := procfs.NewProc(p.cmd.Process.Pid)
	p.s.must(err)
	stat, err := proc.Stat()
	p.s.must(err)
	return usage{cpu: stat.CPUTime(), resident: float64(stat.ResidentMemory()) / 1e6}
}

func init() { roles["informer"] = informer }

// informer is an informer that does nothing, on the client that ours uses.
func informer() error {
	kubeconfig, namespace := os.Args[1], os.Args[2]
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := election.NewLeaseClient(cfg)
	if err != nil {
		return err
	}
	leases := client.Leases(namespace)
	i := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return leases.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			return leases.Watch(ctx, o)
		},
	}, &coordinationv1.Lease{}, 0, cache.Indexers{})
	if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{}); err != nil {
		return err
	}
	i.Run(make(chan struct{})) // until it is killed
	return nil
}
