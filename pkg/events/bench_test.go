package events_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// example is an ordinary event with every field set.
func example() events.Event {
	at := time.Date(2025, 6, 1, 12, 0, 0, 123456789, time.UTC)
	return events.Event{
		Election:             events.Election{Cluster: "default", Namespace: "prod", Lease: "kube.scheduler"},
		Transition:           events.BecameLeader,
		UID:                  "5f0b2c34-7d3e-4a19-9a4e-0c9d3f1e8b70",
		Epoch:                7,
		Time:                 at,
		Leader:               "pod-b_5f3a9c1e",
		PreviousLeader:       "pod-a_91d0e4b7",
		Reason:               events.Acquired,
		LeaseTransitions:     new(12),
		LeaseDurationSeconds: new(15),
		AcquireTime:          at.Truncate(time.Microsecond),
		RenewTime:            at.Truncate(time.Microsecond),
		LeaderlessMillis:     new(int64(21)),
		Reporter:             "pod-b_5f3a9c1e",
		Perspective:          events.ByLeader,
		Revision:             184467,
		TraceParent:          "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		TraceState:           "vendor=value",
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, mode := range []events.ContentMode{events.Structured, events.Binary} {
		b.Run(string(mode), func(b *testing.B) {
			e := example()
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := events.Encode(e, mode); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, mode := range []events.ContentMode{events.Structured, events.Binary} {
		b.Run(string(mode), func(b *testing.B) {
			header, data, err := events.Encode(example(), mode)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := events.Decode(header, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSDK is the measure that Encode and Decode are held against: the
// CloudEvents SDK writing and reading the same structured event.
func BenchmarkSDK(b *testing.B) {
	_, structured, err := events.Encode(example(), events.Structured)
	if err != nil {
		b.Fatal(err)
	}
	_, payload, err := events.Encode(example(), events.Binary)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		in := example()
		b.ReportAllocs()
		for b.Loop() {
			e := event.New()
			e.SetID(in.ID())
			e.SetType(in.Type())
			e.SetSource(in.Election.Source())
			e.SetSubject(in.Who())
			e.SetTime(in.Time)
			e.SetDataSchema(events.DataSchema)
			e.SetExtension("epoch", int32(in.Epoch))
			e.SetExtension("traceparent", in.TraceParent)
			e.SetExtension("tracestate", in.TraceState)
			if err := e.SetData("application/json", json.RawMessage(payload)); err != nil {
				b.Fatal(err)
			}
			if err := e.Validate(); err != nil {
				b.Fatal(err)
			}
			if _, err := json.Marshal(e); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var e event.Event
			if err := json.Unmarshal(structured, &e); err != nil {
				b.Fatal(err)
			}
		}
	})
}
