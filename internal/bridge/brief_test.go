package bridge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// A leader that is stopped the moment its first term begins need not wait for
// grants of a predecessor: there was none.
func TestFirstTermIsBrief(t *testing.T) {
	for round := range 4 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			s := newSite(t)
			nc := s.server.Connect(t)
			told := make(chan struct{}, 10)
			if _, err := nc.Subscribe(scheduler.Subject(events.DefaultPrefix, events.BecameLeader), func(*nats.Msg) { told <- struct{}{} }); err != nil {
				t.Fatal(err)
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			c := s.stand("brief")
			select {
			case <-told:
			case <-time.After(20 * time.Second):
				t.Fatal("nobody leads")
			}
			began := time.Now()
			if err := c.end(); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("the stop took %s", took)
			}
		})
	}
}
