package bridge

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/leaderbridge/leaderbridge/internal/buildinfo"
	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// front is the service under which a candidate is found over NATS. Its nine
// subscriptions are made while nothing is urgent: when a term begins, they would
// stand in the way of its first event.
type front struct {
	nc       *nats.Conn
	election events.Election
	wg       sync.WaitGroup

	mu      sync.Mutex // held also while a service is made
	service micro.Service
	next    *time.Timer // makes a service
	closed  bool
}

// calm is how long after a term the service for another one is made: when the
// next leader, perhaps on the same machine, has long begun.
const calm = time.Second

// prepare makes a service for the next term, some time later.
func (f *front) prepare(after time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.next = time.AfterFunc(after, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.service == nil && !f.closed {
			f.service, _ = f.announce() // take tries again, and tells
		}
	})
}

// take returns a service for a term. Its user adds the endpoints, and gives it
// back with replace.
func (f *front) take() (micro.Service, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next.Stop()
	if s := f.service; s != nil {
		f.service = nil
		return s, nil
	}
	return f.announce()
}

func (f *front) announce() (micro.Service, error) {
	return micro.AddService(f.nc, micro.Config{
		Name:               "leaderbridge",
		Version:            buildinfo.SemVer(),
		Description:        "candidate for " + f.election.String() + "; the leader has endpoints",
		QueueGroupDisabled: true,
		Metadata: map[string]string{
			"cluster": f.election.Cluster, "namespace": f.election.Namespace, "lease": f.election.Lease,
		},
	})
}

// replace ends the service of a term, since endpoints cannot be taken away, and
// prepares another. It does not wait, as the term's end must not.
func (f *front) replace(old micro.Service) {
	f.wg.Go(func() { _ = old.Stop() }) // it fails with the connection, and the service with it
	f.prepare(calm)
}

// close ends the service, when there is no term.
func (f *front) close() {
	f.mu.Lock()
	f.closed = true
	f.next.Stop()
	if f.service != nil {
		_ = f.service.Stop()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

// gate keeps the events of a term back until the term's services are there: who
// reads in the log that there is a leader finds it answering.
type gate struct {
	mu   sync.Mutex
	term *election.Term
	open chan struct{}
}

// of returns what is closed once the services of the term are there.
func (g *gate) of(t *election.Term) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.term != t {
		g.term, g.open = t, make(chan struct{})
	}
	return g.open
}
