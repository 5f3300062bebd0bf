package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

const (
	lease    = 2 * time.Second
	deadline = 1400 * time.Millisecond
	retry    = 300 * time.Millisecond
	intruder = "intruder"
	replicas = 3
)

// stage is one election with its replicas, each behind links of its own.
type stage struct {
	t         *testing.T
	g         *ground
	run       *run
	name      string
	rng       *rand.Rand
	namespace string
	leases    coordinationclient.LeaseInterface
	nc        *nats.Conn
	cast      []*actor
	crew      *crew              // nil for no workers
	done      map[string][]fault // what was done, by the identity it was done to
	spells    []spell            // the same, in order

	mu    sync.Mutex
	terms []term
	log   []entry
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

func newStage(t *testing.T, g *ground, r *run, i int, seed uint64) *stage {
	t.Helper()
	s := &stage{
		t: t, g: g, run: r, name: fmt.Sprintf("election-%d", i), rng: rand.New(rand.NewPCG(seed, uint64(i))),
		namespace: g.api.Namespace(t), done: map[string][]fault{}, nc: g.connect(),
	}
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
		a := &actor{name: fmt.Sprintf("%s-r%d", s.name, i), api: newLink(t, s.name+"-api", api.Host), nats: s.natsLink(i)}
		cfg := rest.CopyConfig(g.api.Config())
		cfg.Host = "https://" + a.api.addr()
		a.kubeconfig = kubeenv.Kubeconfig(t, cfg, s.namespace)
		s.cast = append(s.cast, a)
		s.start(a)
	}
	return s
}

// natsLink makes a link to one of the NATS servers.
func (s *stage) natsLink(i int) *link {
	s.t.Helper()
	u, err := url.Parse(s.g.nats[i%len(s.g.nats)].URL())
	if err != nil {
		s.t.Fatal(err)
	}
	return newLink(s.t, s.name+"-nats", u.Host)
}

func (s *stage) start(a *actor) {
	a.lives++
	a.id = fmt.Sprintf("%s.%d", a.name, a.lives)
	a.process = procenv.Start(s.t, a.id, nil, "run", "--lease-lock-name", "scheduler", "--id", a.id,
		"--kubeconfig", a.kubeconfig, "--nats-url", "nats://"+a.nats.addr(), "--http-addr", "",
		"--lease-duration", lease.String(), "--renew-deadline", deadline.String(), "--retry-period", retry.String())
}

// watchLease records the terms that the Lease goes through. The API server
// itself comes and goes: what is missed then is a term that nothing is claimed
// about.
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
		if last.how == "" {
			last.how = "released"
		}
		return
	}
	now := term{holder: *spec.HolderIdentity, acquired: spec.AcquireTime.Time, from: time.Now(), renewed: spec.RenewTime.Time, lease: time.Duration(*spec.LeaseDurationSeconds) * time.Second}
	now.uid = string(obj.UID)
	now.noted, _ = strconv.ParseUint(obj.Annotations[election.AnnotationEpoch], 10, 64) // none is zero
	if now.key() == last.key() {
		last.renewed = now.renewed
		if last.how == "deleted" {
			last.how, last.deleted = "", true // its holder has made it anew
		}
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
		s.log = append(s.log, entry{Event: e.Event, seq: e.Seq, stored: e.Stored})
		return nil
	})
}

// stored reads the log of this election as it is now.
func (s *stage) stored() []entry {
	s.t.Helper()
	filter := events.Election{Cluster: "default", Namespace: s.namespace, Lease: "scheduler"}
	var all []entry
	testenv.Eventually(s.t, patience, func() error {
		ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
		defer cancel()
		log, err := events.Open(ctx, s.nc, events.Options{ReadOnly: true})
		if err != nil {
			return err
		}
		all = nil
		end := errors.New("read")
		read, done := context.WithCancelCause(ctx)
		defer done(nil)
		err = log.Follow(read, events.FollowOptions{Filter: filter, From: events.FromSequence(1), OnState: func(f events.FeedState) {
			if f.Current {
				done(end)
			}
		}}, func(e events.Entry) error {
			all = append(all, entry{Event: e.Event, seq: e.Seq, stored: e.Stored})
			return nil
		})
		if !errors.Is(err, end) {
			return err
		}
		return nil
	})
	return all
}

func (s *stage) history() []term {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.terms)
}

func (s *stage) entries() []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// leader waits until one of the cast leads.
func (s *stage) leader() *actor {
	s.t.Helper()
	var who *actor
	testenv.Eventually(s.t, patience, func() error {
		terms := s.history()
		if len(terms) == 0 {
			return fmt.Errorf("%s: nobody has led yet", s.name)
		}
		now := terms[len(terms)-1]
		for _, a := range s.cast {
			if a.id == now.holder && now.how == "" {
				who = a
				return nil
			}
		}
		return fmt.Errorf("%s: the Lease names %s, %s", s.name, now.holder, now.how)
	})
	return who
}

// level waits until the log tells of the leader of the moment.
func (s *stage) level() {
	s.t.Helper()
	testenv.Eventually(s.t, patience, func() error {
		log, terms := s.entries(), s.history()
		if len(log) == 0 || len(terms) == 0 {
			return fmt.Errorf("%s: nothing has happened yet", s.name)
		}
		last, now := log[len(log)-1], terms[len(terms)-1]
		if last.Transition != events.NewLeader || last.Leader != now.holder || now.how != "" {
			return fmt.Errorf("%s: the Lease names %s, the log ends with %s of %s", s.name, now.holder, last.Transition, last.Who())
		}
		return nil
	})
}

// play forces failovers until all elections together have as many as wanted.
func (s *stage) play() {
	s.leader()
	if s.crew != nil {
		defer s.crew.begin()()
	}
	deck := newDeck(s.rng, faults)
	seen := len(s.history())
	for !s.t.Failed() && (s.run.forced.Load() < s.run.wanted || !deck.round()) {
		f := deck.deal()
		if f.deadly {
			// A process takes to its grave what only it has seen and could not
			// tell. One such loss at a time is what replicas are for.
			s.level()
		}
		a := s.leader()
		time.Sleep(upTo(s.rng, 300*time.Millisecond))
		s.done[a.id] = append(s.done[a.id], f)
		now := spell{kind: f.name, from: time.Now(), any: f.any}
		f.do(s, a)
		now.to = time.Now()
		s.spells = append(s.spells, now)
		n := len(s.history())
		s.run.forced.Add(int64(n - seen))
		seen = n
	}
	s.leader()
}

// check holds every promise against the history.
func (s *stage) check() []entry {
	s.level()
	if s.crew != nil {
		s.crew.resumes()
	}
	// Both are still growing; the log only tells of terms that the Lease had.
	log, terms := s.entries(), s.history()
	for i := range log {
		log[i].era = s.g.era(log[i].stored)
	}
	found := slices.Concat(checkLease(terms), checkLog(terms, log), checkComplete(terms, log), checkReasons(log, s.done, s.spells), checkStored(s.stored(), log))
	if s.crew != nil {
		found = append(found, s.crew.check(terms, log)...)
	}
	for _, f := range found {
		s.t.Errorf("%s: %s", s.name, f)
	}
	if len(found) > 0 {
		for i, e := range log {
			s.t.Logf("%s %3d #%d era %d %s %s epoch=%d %s %s by %s missed=%d rev=%d acquired=%s", s.name, i, e.seq, e.era, e.stored.Format(clock), e.Transition,
				e.Epoch, e.Who(), e.Reason, e.Reporter, e.Missed, e.Revision, e.AcquireTime.Format(clock))
		}
		for i, t := range terms {
			s.t.Logf("%s term %3d %s %s from %s renewed %s %s", s.name, i, t.holder, t.acquired.UTC().Format(clock), t.from.UTC().Format(clock), t.renewed.UTC().Format(clock), t.how)
		}
		for _, f := range s.spells {
			s.t.Logf("%s fault %s from %s to %s", s.name, f.kind, f.from.UTC().Format(clock), f.to.UTC().Format(clock))
		}
		for _, f := range s.g.spells {
			s.t.Logf("fault %s from %s to %s", f.kind, f.from.UTC().Format(clock), f.to.UTC().Format(clock))
		}
	}
	return log
}

const clock = "15:04:05.000"
