package telemetry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/leaderbridge/leaderbridge/internal/telemetry/instruments"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// reportEverything makes a process report every metric that it has.
func reportEverything(t *testing.T) *Telemetry {
	t.Helper()
	clean(t)
	tel := setup(t, Options{Instance: "a"})
	ctx := t.Context()
	leaderless := int64(20)
	for _, e := range []*instruments.Election{tel.Metrics.Standing(scheduler, "a"), tel.Metrics.Watching()} {
		e.SetLeading(true)
		e.SetHeld(true)
		e.SetEpoch(7)
		e.SetQueued(1)
		e.SetGrants(1)
		e.WatchSeen(time.Now())
		e.Transition(ctx, events.Event{Transition: events.BecameLeader, Reason: events.Acquired, LeaderlessMillis: &leaderless})
		e.Handover(ctx, time.Millisecond)
		e.Appended(ctx, time.Millisecond, nil)
		e.Dropped(ctx)
		e.Grant(ctx, instruments.GrantGiven)
	}
	w := tel.Metrics.Working(scheduler, "cleaner", func() bool { return true })
	w.Started(ctx)
	w.Ended(ctx, instruments.WorkDone)
	w.Ran(ctx, instruments.WorkFailed)
	tel.Metrics.LogReachable(true)
	tel.Metrics.Failed(ctx, instruments.PartLog)

	// An API server that wants one retry.
	asked := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if asked++; asked == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = io.WriteString(w, `{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1"}`)
	}))
	t.Cleanup(api.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoordinationV1().Leases("prod").List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	return tel
}

// exposition is what a scrape of such a process gives: the label names of each
// metric, and its family by name.
type exposition struct {
	families map[string]*dto.MetricFamily
	// series has every name that a query may use, such as that of a histogram
	// with _bucket, and the labels that it has.
	series map[string][]string
}

func expose(t *testing.T) exposition {
	t.Helper()
	body := scrape(t, reportEverything(t).Handler, "")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	x := exposition{families: families, series: map[string][]string{}}
	for name, f := range families {
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
			}
		}
		var list []string
		for l := range labels {
			list = append(list, l)
		}
		slices.Sort(list)
		if f.GetType() == dto.MetricType_HISTOGRAM {
			x.series[name+"_bucket"] = append(slices.Clone(list), "le")
			x.series[name+"_count"], x.series[name+"_sum"] = list, list
			continue
		}
		x.series[name] = list
	}
	return x
}

// own returns the names of the families that this project defines.
func (x exposition) own() []string {
	var names []string
	for name := range x.families {
		if strings.HasPrefix(name, "leaderbridge_") || strings.HasPrefix(name, "rest_client_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
