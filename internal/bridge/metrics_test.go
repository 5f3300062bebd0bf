package bridge_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/bridge"
	"github.com/leaderbridge/leaderbridge/internal/logbook"
	"github.com/leaderbridge/leaderbridge/internal/telemetry"
	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/election/natskv"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// A state that no event can speak of, here a holder whose name is too long, is
// counted: the log alone tells of it only when the next event comes.
func TestDroppedStatesAreCounted(t *testing.T) {
	s := newSite(t)
	measured, err := telemetry.Setup(t.Context(), telemetry.Options{Instance: "a", Logger: s.log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = measured.Shutdown(t.Context()) })
	js := s.server.JetStream(t)
	lock, err := natskv.New(js, natskv.Options{Namespace: scheduler.Namespace, Name: scheduler.Lease})
	if err != nil {
		t.Fatal(err)
	}
	nc := s.server.Connect(t)
	b, err := bridge.New(lock, nc, logbook.New(nc, events.Options{}, nil), bridge.Config{
		Election: scheduler, Prefix: events.DefaultPrefix, Logger: s.log, Metrics: measured.Metrics,
		Options: election.Options{Identity: "a", LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 500 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.leads(&candidate{s.start(nc, b.Run), b})
	obs, err := lock.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	record := obs.Record
	record.Holder, record.Acquired = strings.Repeat("x", events.MaxIdentity+1), time.Now()
	testenv.Eventually(t, 10*time.Second, func() error {
		if obs, err = lock.Read(t.Context()); err != nil {
			return err
		}
		_, err = lock.Update(t.Context(), obs, record)
		return err
	})
	const want = `leaderbridge_log_dropped_total{election_cluster="default",election_lease="scheduler",election_namespace="prod"} 1`
	testenv.Eventually(t, 20*time.Second, func() error {
		answer := httptest.NewRecorder()
		measured.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if !strings.Contains(answer.Body.String(), want) {
			return errors.New("the metric does not tell of it")
		}
		return nil
	})
}
