package events_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/nats-io/nats.go"
)

var update = flag.Bool("update", false, "write the golden files anew")

func sortedNames(h nats.Header) []string { return slices.Sorted(maps.Keys(h)) }

// goldenEvents are the shapes that docs/events.md speaks of.
func goldenEvents() map[string]events.Event {
	start := example()

	stop := start
	stop.Transition = events.StoppedLeading
	stop.Epoch = 6
	stop.Leader, stop.PreviousLeader = "", "pod-a_91d0e4b7"
	stop.Reason = events.Expired
	stop.LeaderlessMillis = nil
	stop.Perspective = events.ByWitness
	stop.TraceState = ""

	released := stop
	released.Reason = events.Released
	released.Perspective = events.ByLeader
	released.Reporter = "pod-a_91d0e4b7"

	successor := start
	successor.Transition = events.NewLeader

	// As the kubelet writes its Lease: no acquireTime, no leaseTransitions.
	watched := events.Event{
		Election:             events.Election{Cluster: "eu-1", Namespace: "kube-node-lease", Lease: "node-7.eu.internal"},
		Transition:           events.NewLeader,
		UID:                  "c1f8a0de-2b54-4a7d-8f0e-6d9b2c3a4e55",
		Epoch:                1,
		Time:                 time.Date(2025, 6, 1, 14, 0, 0, 0, time.FixedZone("CEST", 2*60*60)),
		Leader:               "node-7.eu.internal",
		Reason:               events.TakenOver,
		Missed:               3,
		LeaseDurationSeconds: new(40),
		RenewTime:            time.Date(2025, 6, 1, 11, 59, 59, 0, time.UTC),
		Reporter:             "watcher-0_aa17",
		Perspective:          events.ByWatcher,
	}

	odd := watched
	odd.Transition = events.BecameLeader
	odd.Leader = "100% héllo\n>*\"😀"
	odd.LeaseDurationSeconds, odd.RenewTime, odd.Missed = nil, time.Time{}, 0

	return map[string]events.Event{
		"became-leader":   start,
		"stopped-leading": stop,
		"released":        released,
		"new-leader":      successor,
		"watched":         watched,
		"odd-identity":    odd,
	}
}

// The bytes on the wire are the contract: they change only on purpose, with
// go test ./pkg/events -run TestGolden -update.
func TestGolden(t *testing.T) {
	for name, e := range goldenEvents() {
		for _, mode := range []events.ContentMode{events.Structured, events.Binary} {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				header, data, err := events.Encode(e, mode)
				if err != nil {
					t.Fatal(err)
				}
				got := []byte(headerText(header) + "\n" + string(data) + "\n")
				file := filepath.Join("testdata", "golden", name+"."+string(mode)+".txt")
				if *update {
					if err := os.WriteFile(file, got, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
				}
				back, err := events.Decode(header, data)
				if err != nil {
					t.Fatal(err)
				}
				e.Time = e.Time.UTC()
				if asJSON(t, back) != asJSON(t, e) {
					t.Errorf("came back as %s, want %s", asJSON(t, back), asJSON(t, e))
				}
			})
		}
	}
}

// Every event of the golden files stands in docs/events.md as it is written,
// so that the page cannot show what the code does not do.
func TestDocumentShowsGoldenEvents(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "events.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		event string
		mode  events.ContentMode
	}{
		{"became-leader", events.Structured},
		{"became-leader", events.Binary},
	} {
		header, data, err := events.Encode(goldenEvents()[tc.event], tc.mode)
		if err != nil {
			t.Fatal(err)
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, data, "", "  "); err != nil {
			t.Fatal(err)
		}
		want := headerText(header) + "\n" + indented.String() + "\n"
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("docs/events.md lacks the %s form of %s:\n%s", tc.mode, tc.event, want)
		}
	}
}
