package faults

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

const (
	lease    = 2 * time.Second
	deadline = 1400 * time.Millisecond
	retry    = 300 * time.Millisecond
	intruder = "intruder"
	replicas = 3
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	// A proxy that was told to swallow leaves its pipe behind (toxiproxy 2.5).
	kubeenv.Main(m, goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"))
}

func number(variable string, fallback int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return fallback
}

// TestFaults forces failovers by faults of all kinds and checks every promise
// over what happened.
func TestFaults(t *testing.T) {
	seed := uint64(number("LEADERBRIDGE_FAULTS_SEED", 1))
	wanted := number("LEADERBRIDGE_FAULTS_FAILOVERS", 30)
	elections := number("LEADERBRIDGE_FAULTS_ELECTIONS", 2)
	t.Logf("seed %d: replay with LEADERBRIDGE_FAULTS_SEED=%d", seed, seed)
	api := kubeenv.Start(t)
	cluster := natsenv.StartCluster(t, func(o *server.Options) {
		// A client must stay on the link that it was given.
		o.Cluster.NoAdvertise = true
	})
	ground := &ground{t: t, api: api, cluster: cluster}

	var wg sync.WaitGroup
	var mu sync.Mutex
	total, kinds := 0, map[string]int{}
	stages := make([]*stage, elections)
	for i := range stages {
		stages[i] = newStage(t, ground, fmt.Sprintf("election-%d", i), rand.New(rand.NewPCG(seed, uint64(i))))
	}
	for _, s := range stages {
		wg.Go(func() {
			s.play(wanted / elections)
			mu.Lock()
			defer mu.Unlock()
			total += len(s.history())
			for _, fs := range s.done {
				for _, f := range fs {
					kinds[f.name]++
				}
			}
		})
	}
	// Faults of the servers themselves are drawn here: their methods belong to
	// the goroutine of the test.
	rng := rand.New(rand.NewPCG(seed, 1000))
	quit := make(chan struct{})
	go func() { wg.Wait(); close(quit) }()
	for n := 0; ; n++ {
		select {
		case <-quit:
		case <-time.After(time.Duration(4+rng.IntN(8)) * time.Second):
			ground.shake(rng, kinds, &mu)
			continue
		}
		break
	}
	reasons := map[events.Reason]int{}
	for _, s := range stages {
		for _, e := range s.check() {
			if e.Transition == events.StoppedLeading {
				reasons[e.Reason]++
			}
		}
	}
	t.Logf("%d terms; faults: %v; ends: %v", total, kinds, reasons)
	if !t.Failed() && total < wanted {
		t.Errorf("only %d terms, want %d: too quiet to prove anything", total, wanted)
	}
}

// ground is what all elections stand on.
type ground struct {
	t       *testing.T
	api     *kubeenv.APIServer
	cluster *natsenv.Cluster
}

// shake harms a server and heals it again.
func (g *ground) shake(rng *rand.Rand, kinds map[string]int, mu *sync.Mutex) {
	var name string
	switch rng.IntN(4) {
	case 0:
		name = "API server restarted"
		g.api.Kill(g.t)
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond) // time itself is the subject: how long the fault lasts
		g.api.Restart(g.t)
	case 1:
		name = "API server hangs"
		g.api.Pause(g.t)
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond) // time itself is the subject: how long the fault lasts
		g.api.Resume(g.t)
	default:
		name = "NATS server restarted"
		i := rng.IntN(natsenv.Size)
		g.cluster.Stop(i)
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond) // time itself is the subject: how long the fault lasts
		g.cluster.Restart(g.t, i)
	}
	mu.Lock()
	defer mu.Unlock()
	kinds[name]++
}

// stage is one election with its replicas, each behind links of its own.
type stage struct {
	t         *testing.T
	g         *ground
	rng       *rand.Rand
	namespace string
	leases    coordinationclient.LeaseInterface
	nc        *nats.Conn
	cast      []*actor
	done      map[string][]fault // what was done, by the identity it was done to

	mu    sync.Mutex
	terms []term
	log   []events.Event
}

// actor is one place for a replica.
type actor struct {
	name       string
	api, nats  *link
	kubeconfig string
	lives      int
	id         string
	process    *procenv.Process
}

func newStage(t *testing.T, g *ground, name string, rng *rand.Rand) *stage {
	t.Helper()
	s := &stage{t: t, g: g, rng: rng, namespace: g.api.Namespace(t), done: map[string][]fault{}, nc: g.cluster.Connect(t)}
	client, err := kubernetes.NewForConfig(g.api.Config())
	if err != nil {
		t.Fatal(err)
	}
	s.leases = client.CoordinationV1().Leases(s.namespace)
	go s.watchLease(t.Context())
	go s.readLog(t.Context())
	api, err := url.Parse(g.api.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	for i := range replicas {
		u, err := url.Parse(g.cluster.Server(i).URL())
		if err != nil {
			t.Fatal(err)
		}
		a := &actor{name: fmt.Sprintf("%s-r%d", name, i), api: newLink(t, name+"-api", api.Host), nats: newLink(t, name+"-nats", u.Host)}
		cfg := rest.CopyConfig(g.api.Config())
		cfg.Host = "https://" + a.api.addr()
		a.kubeconfig = kubeenv.Kubeconfig(t, cfg, s.namespace)
		s.cast = append(s.cast, a)
		s.start(a)
	}
	return s
}

func (s *stage) start(a *actor) {
	a.lives++
	a.id = fmt.Sprintf("%s.%d", a.name, a.lives)
	a.process = procenv.Start(s.t, a.id, nil, "run", "--lease-lock-name", "scheduler", "--id", a.id,
		"--kubeconfig", a.kubeconfig, "--nats-url", "nats://"+a.nats.addr(), "--http-addr", "",
		"--lease-duration", lease.String(), "--renew-deadline", deadline.String(), "--retry-period", retry.String())
}

// watchLease records the terms that the Lease goes through, by polling: the
// API server itself comes and goes, and a poll every few milliseconds of a
// Lease that is renewed every 300 ms misses nothing that matters.
func (s *stage) watchLease(ctx context.Context) {
	for ctx.Err() == nil {
		w, err := s.leases.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			pause(ctx, 50*time.Millisecond)
			continue
		}
		for e := range w.ResultChan() {
			if obj, ok := e.Object.(*coordinationv1.Lease); ok && obj.Name == "scheduler" {
				s.sawLease(string(e.Type), obj)
			}
		}
	}
}

func (s *stage) sawLease(kind string, obj *coordinationv1.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := &term{}
	if len(s.terms) > 0 {
		last = &s.terms[len(s.terms)-1]
	}
	spec := obj.Spec
	if kind == "DELETED" {
		last.how = "deleted"
		return
	}
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" {
		last.how = "released"
		return
	}
	now := term{holder: *spec.HolderIdentity, acquired: spec.AcquireTime.Time, from: time.Now(), renewed: spec.RenewTime.Time, lease: time.Duration(*spec.LeaseDurationSeconds) * time.Second}
	if now.key() == last.key() {
		last.renewed = now.renewed
		return
	}
	if now.holder == intruder && last.how == "" {
		last.how = "overwritten"
	}
	s.terms = append(s.terms, now)
}

// readLog follows the log of this election.
func (s *stage) readLog(ctx context.Context) {
	log, err := events.Open(ctx, s.nc, events.Options{ReadOnly: true})
	if err != nil {
		s.t.Errorf("open the log: %v", err)
		return
	}
	filter := events.Election{Cluster: "default", Namespace: s.namespace, Lease: "scheduler"}
	_ = log.Follow(ctx, events.FollowOptions{Filter: filter, From: events.FromSequence(1)}, func(e events.Entry) error {
		if e.Err != nil {
			s.t.Errorf("the log holds what is no event: %v", e.Err)
			return nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.log = append(s.log, e.Event)
		return nil
	})
}

func (s *stage) history() []term {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.terms)
}

func (s *stage) events() []events.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// leader waits for a leader who is one of the cast and whom the log knows.
func (s *stage) leader() *actor {
	s.t.Helper()
	var who *actor
	testenv.Eventually(s.t, 60*time.Second, func() error {
		log := s.events()
		if len(log) == 0 {
			return fmt.Errorf("%s: the log is empty", s.namespace)
		}
		last := log[len(log)-1]
		if last.Transition != events.NewLeader {
			return fmt.Errorf("%s: the log ends with %s of %s", s.namespace, last.Transition, last.Who())
		}
		for _, a := range s.cast {
			if a.id == last.Leader {
				who = a
				return nil
			}
		}
		return fmt.Errorf("%s: the log says that %s leads", s.namespace, last.Leader)
	})
	return who
}

// play forces terms until there are as many as wanted, and lets things settle.
func (s *stage) play(wanted int) {
	for len(s.history()) < wanted && !s.t.Failed() {
		a := s.leader()
		f := faults[s.rng.IntN(len(faults))]
		s.done[a.id] = append(s.done[a.id], f)
		f.do(s, a)
	}
	s.leader()
}

// check holds every promise against the history.
func (s *stage) check() []events.Event {
	// The log is level with the Lease once nothing has happened for a while.
	var log []events.Event
	testenv.Eventually(s.t, 30*time.Second, func() error {
		log = s.events()
		terms := s.history()
		if len(log) == 0 || len(terms) == 0 {
			return fmt.Errorf("%s: nothing has happened yet", s.namespace)
		}
		last, now := log[len(log)-1], terms[len(terms)-1]
		if last.Transition != events.NewLeader || last.Leader != now.holder {
			return fmt.Errorf("%s: the Lease names %s, the log ends with %s of %s", s.namespace, now.holder, last.Transition, last.Who())
		}
		return nil
	})
	for _, f := range slices.Concat(checkLease(s.history()), checkLog(log), checkComplete(s.history(), log), checkReasons(log, s.done)) {
		s.t.Errorf("%s: %s", s.namespace, f)
	}
	if s.t.Failed() {
		for i, e := range log {
			s.t.Logf("%s %3d %s epoch=%d %s %s by %s missed=%d rev=%d", s.namespace, i, e.Transition, e.Epoch, e.Who(), e.Reason, e.Reporter, e.Missed, e.Revision)
		}
	}
	return log
}

// fault is something done to a leader, and the reasons for the end of its term
// that may come of it. Faults of the shared servers can end any term.
type fault struct {
	name    string
	reasons []events.Reason
	do      func(*stage, *actor)
}

// shaken are the ends that a fault of the API server or of NATS can bring to
// any term.
var shaken = []events.Reason{events.RenewDeadline, events.Expired, events.Superseded}

func ends(r ...events.Reason) []events.Reason { return append(r, shaken...) }

var faults = []fault{
	{"killed", ends(), func(s *stage, a *actor) {
		a.process.Signal(syscall.SIGKILL)
		<-a.process.Done()
		s.start(a)
		s.otherThan(a.id)
	}},
	{"stopped", ends(events.Released), func(s *stage, a *actor) {
		a.process.Signal(syscall.SIGTERM)
		a.process.Wait(20 * time.Second)
		s.start(a)
	}},
	{"paused", ends(), func(s *stage, a *actor) {
		a.process.Signal(syscall.SIGSTOP)
		time.Sleep(time.Duration(s.rng.IntN(4000)) * time.Millisecond) // time itself is the subject: how long the fault lasts
		a.process.Signal(syscall.SIGCONT)
	}},
	{"asked to step down", ends(events.StepDown), func(s *stage, a *actor) {
		e := events.Election{Cluster: "default", Namespace: s.namespace, Lease: "scheduler"}
		_, _ = s.nc.Request(e.RequestSubject(events.DefaultPrefix, events.StepDownVerb), nil, 2*time.Second)
		time.Sleep(100 * time.Millisecond) // time itself is the subject: how long the fault lasts
	}},
	{"API server swallows", ends(), func(s *stage, a *actor) {
		heal := a.api.hang(s.t)
		time.Sleep(time.Duration(s.rng.IntN(4000)) * time.Millisecond) // time itself is the subject: how long the fault lasts
		heal()
	}},
	{"cut off from the API server", ends(), func(s *stage, a *actor) {
		heal := a.api.cut(s.t)
		time.Sleep(time.Duration(s.rng.IntN(4000)) * time.Millisecond) // time itself is the subject: how long the fault lasts
		heal()
	}},
	{"cut off from NATS and stopped", ends(events.Released), func(s *stage, a *actor) {
		heal := a.nats.cut(s.t)
		a.process.Signal(syscall.SIGTERM)
		a.process.Wait(20 * time.Second)
		heal()
		s.start(a)
	}},
	{"Lease deleted", ends(events.Deleted), func(s *stage, a *actor) {
		_ = s.leases.Delete(context.Background(), "scheduler", metav1.DeleteOptions{})
		time.Sleep(300 * time.Millisecond) // time itself is the subject: how long the fault lasts
	}},
	{"Lease overwritten", ends(), func(s *stage, a *actor) {
		obj, err := s.leases.Get(context.Background(), "scheduler", metav1.GetOptions{})
		if err != nil {
			return
		}
		who, now, seconds, transitions := intruder, metav1.NowMicro(), int32(lease/time.Second), *obj.Spec.LeaseTransitions+1
		obj.Spec.HolderIdentity, obj.Spec.AcquireTime, obj.Spec.RenewTime = &who, &now, &now
		obj.Spec.LeaseDurationSeconds, obj.Spec.LeaseTransitions = &seconds, &transitions
		if _, err := s.leases.Update(context.Background(), obj, metav1.UpdateOptions{}); err != nil {
			return // the leader renewed in between, or the API server is away
		}
		s.otherThan(a.id)
	}},
}

// otherThan waits until the Lease names somebody else.
func (s *stage) otherThan(id string) {
	testenv.Eventually(s.t, 30*time.Second, func() error {
		if h := s.history(); h[len(h)-1].holder != id {
			return nil
		}
		return fmt.Errorf("%s: still %s", s.namespace, id)
	})
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
