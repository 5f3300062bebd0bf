package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// rivals are two candidates of client-go's leaderelection, set up as its example
// shows.
type rivals struct {
	s         *site
	namespace string
	name      string
	clients   [2]kubernetes.Interface
	leader    *rival
	standby   *rival
	made      atomic.Int64

	lease, deadline, retry time.Duration
	keeps                  bool // a leader that stops does not release
}

// rival is one of them. Its elector runs once, so each term has its own.
type rival struct {
	id      string
	side    int
	stop    context.CancelFunc
	ended   chan struct{}
	started chan time.Time
}

func (s *site) rivals(namespace, name string) *rivals {
	r := &rivals{
		s: s, namespace: namespace, name: name,
		lease: 15 * time.Second, deadline: 10 * time.Second, retry: 2 * time.Second, // client-go's defaults
	}
	for i := range r.clients {
		client, err := kubernetes.NewForConfig(s.config())
		s.must(err)
		r.clients[i] = client
	}
	return r
}

// begin lets one lead and the other stand by.
func (r *rivals) begin(ctx context.Context) error {
	var err error
	if r.leader, err = r.stand(ctx, 0); err != nil {
		return err
	}
	if _, err := r.leader.leads(ctx); err != nil {
		return err
	}
	r.standby, err = r.stand(ctx, 1)
	return err
}

func (r *rivals) stand(ctx context.Context, side int) (*rival, error) {
	started := make(chan time.Time, 1)
	id := fmt.Sprintf("%s-%d", r.name, r.made.Add(1))
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: r.name, Namespace: r.namespace},
			Client:     r.clients[side].CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: id},
		},
		LeaseDuration: r.lease, RenewDeadline: r.deadline, RetryPeriod: r.retry,
		ReleaseOnCancel: !r.keeps,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { started <- time.Now() },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	e := &rival{id: id, side: side, stop: stop, ended: make(chan struct{}), started: started}
	go func() {
		defer close(e.ended)
		elector.Run(ctx)
	}()
	return e, nil
}

func (e *rival) leads(ctx context.Context) (time.Time, error) {
	select {
	case at := <-e.started:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	case <-time.After(time.Minute):
		return time.Time{}, fmt.Errorf("client-go's standby does not lead after a minute")
	}
}

// handOver tells the leader to stop, at some moment between two looks of the
// standby, and returns how long it took until the other one's callback ran.
func (r *rivals) handOver(ctx context.Context) (time.Duration, error) {
	if err := anyMoment(ctx, 3200*time.Millisecond); err != nil {
		return 0, err
	}
	began := time.Now()
	r.leader.stop()
	at, err := r.standby.leads(ctx)
	if err != nil {
		return 0, err
	}
	<-r.leader.ended
	next, err := r.stand(ctx, r.leader.side)
	if err != nil {
		return 0, err
	}
	r.leader, r.standby = r.standby, next
	return at.Sub(began), nil
}

// end stops both.
func (r *rivals) end() {
	for _, e := range []*rival{r.standby, r.leader} {
		if e != nil {
			e.stop()
			<-e.ended
		}
	}
}
