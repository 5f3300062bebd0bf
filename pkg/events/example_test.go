package events_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/nats-io/nats.go"
)

// A subscriber follows one election, and tells its events from others.
func ExampleDecode() {
	election := events.Election{Cluster: "default", Namespace: "prod", Lease: "kube.scheduler"}
	fmt.Println("subscribe to", election.Filter(events.DefaultPrefix))

	handle := func(msg *nats.Msg) {
		e, err := events.Decode(msg.Header, msg.Data)
		var unknown *events.UnknownTypeError
		switch {
		case errors.As(err, &unknown):
			// Written by a later version, or by somebody else.
		case err != nil:
			fmt.Println(err)
		default:
			fmt.Printf("%s of term %d: %s (%s)\n", e.Transition, e.Epoch, e.Who(), e.Reason)
		}
	}

	e := events.Event{
		Election:    election,
		Transition:  events.BecameLeader,
		UID:         "5f0b2c34-7d3e-4a19-9a4e-0c9d3f1e8b70",
		Epoch:       7,
		Time:        time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC),
		Leader:      "pod-b_5f3a9c1e",
		Reason:      events.Acquired,
		Reporter:    "pod-b_5f3a9c1e",
		Perspective: events.ByLeader,
	}
	header, data, err := events.Encode(e, events.Structured)
	if err != nil {
		fmt.Println(err)
		return
	}
	handle(&nats.Msg{Header: header, Data: data})
	// Output:
	// subscribe to leaderbridge.event.default.prod.kube_scheduler.*
	// became-leader of term 7: pod-b_5f3a9c1e (acquired)
}
