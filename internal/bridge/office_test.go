package bridge_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// Whoever hears of a leader finds it answering, however quick they are: here a
// plain subscriber, which hears of it before the event is stored. The answer comes
// when it is, and names the term.
func TestLeaderAnswersWhoHearsOfIt(t *testing.T) {
	// One thing after the other: the event is ready before the services are.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s := newSite(t)
	nc := s.server.Connect(t)
	type answer struct {
		heard, granted uint64
		err            error
	}
	answers := make(chan answer, 100)
	n := 0
	_, err := nc.Subscribe(scheduler.Subject(events.DefaultPrefix, events.BecameLeader), func(m *nats.Msg) {
		n++
		e, err := events.Decode(m.Header, m.Data)
		if err != nil {
			answers <- answer{err: err}
			return
		}
		role := fmt.Sprintf("role-%d", n)
		reply, err := ask(nc, events.GrantVerb, role, 1)
		if err != nil {
			answers <- answer{err: err}
			return
		}
		var grant events.GrantAnswer
		err = json.Unmarshal(reply.Data, &grant)
		_, returned := ask(nc, events.ReturnVerb, role, 2)
		answers <- answer{e.Epoch, grant.Epoch, errors.Join(err, returned)}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	leader := s.stand("first")
	for round := range 40 {
		if round > 0 {
			next := s.stand(fmt.Sprintf("next-%d", round))
			if err := leader.end(); err != nil {
				t.Fatal(err)
			}
			leader = next
		}
		s.leads(leader)
		select {
		case a := <-answers:
			if a.err != nil || a.heard == 0 || a.granted != a.heard {
				t.Errorf("round %d: heard of term %d, granted in term %d: %v", round, a.heard, a.granted, a.err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("round %d: no answer", round)
		}
	}
}

// ask makes a worker's request. A refusal is an error.
func ask(nc *nats.Conn, verb, role string, seq uint64) (*nats.Msg, error) {
	request, err := json.Marshal(events.GrantRequest{Role: role, Worker: "w", Instance: "i", Seq: seq})
	if err != nil {
		return nil, err
	}
	reply, err := nc.Request(scheduler.RequestSubject(events.DefaultPrefix, verb), request, 10*time.Second)
	if err != nil {
		return nil, err
	}
	if code := reply.Header.Get(micro.ErrorCodeHeader); code != "" {
		return nil, fmt.Errorf("%s refused with %s: %s", verb, code, reply.Data)
	}
	return reply, nil
}

// Every candidate can be found, also one that has led before, and the leader
// alone has endpoints.
func TestCandidatesAreFoundAsServices(t *testing.T) {
	s := newSite(t)
	nc := s.server.Connect(t)
	found := func(want ...int) {
		t.Helper()
		testenv.Eventually(t, 20*time.Second, func() error {
			endpoints, err := services(nc)
			if err == nil && fmt.Sprint(endpoints) != fmt.Sprint(want) {
				err = fmt.Errorf("services have %v endpoints, want %v", endpoints, want)
			}
			return err
		})
	}
	a := s.stand("a")
	s.leads(a)
	b := s.stand("b")
	found(0, 3)
	if err := a.Elector().StepDown(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	s.leads(b)
	found(0, 3)
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	found(3)
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	found()
}

// services returns how many endpoints each service of ours has, the fewest
// first.
func services(nc *nats.Conn) ([]int, error) {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest("$SRV.INFO.leaderbridge", inbox, nil); err != nil {
		return nil, err
	}
	var counts []int
	for {
		m, err := sub.NextMsg(200 * time.Millisecond)
		if errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) {
			slices.Sort(counts)
			return counts, nil
		}
		if err != nil {
			return nil, err
		}
		var info micro.Info
		if err := json.Unmarshal(m.Data, &info); err != nil {
			return nil, err
		}
		counts = append(counts, len(info.Endpoints))
	}
}
