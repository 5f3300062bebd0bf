package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/leaderbridge/leaderbridge/internal/telemetry/failover"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var scheduler = events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"}

// clean hides the developer's own OTEL_ variables from a test.
func clean(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") ||
			slices.Contains([]string{"POD_NAME", "POD_UID", "POD_NAMESPACE", "NODE_NAME"}, name) {
			t.Setenv(name, "")
		}
	}
}

// lines is a log that tests read.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func setup(t *testing.T, o Options) *Telemetry {
	t.Helper()
	tel, err := Setup(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tel.Shutdown(context.Background()) })
	return tel
}

func scrape(t *testing.T, h http.Handler, accept string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

const openMetrics = "application/openmetrics-text; version=1.0.0"

// Without an exporter there is none: not one on localhost that fails.
func TestNothingConfigured(t *testing.T) {
	clean(t)
	var log lines
	tel := setup(t, Options{Logger: log.logger(), Instance: "a"})
	if tel.Tracers != nil {
		t.Error("there are traces")
	}
	tel.Metrics.Standing(scheduler, "a").SetLeading(true)
	body := scrape(t, tel.Handler, "")
	for _, want := range []string{
		`leaderbridge_election_leader{election_cluster="default",election_identity="a",election_lease="scheduler",election_namespace="prod"} 1`,
		`target_info{`, `service_name="leaderbridge"`, "\ngo_goroutines ", "\nprocess_",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	if strings.Contains(body, "otel_scope") {
		t.Error("series carry the scope")
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
	if log.String() != "" {
		t.Errorf("log: %s", &log)
	}
}

func TestNoneIsNone(t *testing.T) {
	clean(t)
	t.Setenv("OTEL_TRACES_EXPORTER", "none")
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	if tel := setup(t, Options{}); tel.Tracers != nil || tel.Meters == nil {
		t.Errorf("traces %v, metrics %v", tel.Tracers, tel.Meters)
	}
}

func TestSDKDisabled(t *testing.T) {
	clean(t)
	t.Setenv("OTEL_SDK_DISABLED", "True")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	tel := setup(t, Options{})
	if tel.Tracers != nil || tel.Meters != nil || tel.Metrics != nil {
		t.Errorf("%+v", tel)
	}
	if tel.Propagator == nil {
		t.Error("no propagator: the specification leaves it on")
	}
	if body := scrape(t, tel.Handler, ""); strings.Contains(body, "leaderbridge_") || !strings.Contains(body, "go_goroutines") {
		t.Errorf("metrics:\n%s", body)
	}
}

func TestSettingsThatNobodyCanFollow(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"OTEL_TRACES_EXPORTER":  {"OTEL_TRACES_EXPORTER": "carrier-pigeon"},
		"OTEL_METRICS_EXPORTER": {"OTEL_METRICS_EXPORTER": "carrier-pigeon"},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			for k, v := range env {
				t.Setenv(k, v)
			}
			_, err := Setup(t.Context(), Options{})
			if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
				t.Errorf("err = %v", err)
			}
		})
	}
}

// Field case 87: the user's name for the service wins over ours.
func TestResource(t *testing.T) {
	for name, tc := range map[string]struct {
		env  map[string]string
		want map[attribute.Key]string
	}{
		"default": {nil, map[attribute.Key]string{"service.name": "leaderbridge",
			"service.instance.id": "pod-a_1", "service.version": "v1", "k8s.pod.name": ""}},
		"OTEL_SERVICE_NAME": {map[string]string{"OTEL_SERVICE_NAME": "foo", "OTEL_RESOURCE_ATTRIBUTES": "service.name=bar,team=x"},
			map[attribute.Key]string{"service.name": "foo", "team": "x"}},
		"OTEL_RESOURCE_ATTRIBUTES": {map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "service.name=bar,service.instance.id=mine"},
			map[attribute.Key]string{"service.name": "bar", "service.instance.id": "mine"}},
		"pod": {map[string]string{"POD_NAME": "p", "POD_UID": "u", "POD_NAMESPACE": "ns", "NODE_NAME": "n"},
			map[attribute.Key]string{"k8s.pod.name": "p", "k8s.pod.uid": "u", "k8s.namespace.name": "ns", "k8s.node.name": "n"}},
		"secrets": {nil, map[attribute.Key]string{"process.command_args": "", "process.command_line": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			set := describe(t.Context(), Options{Version: "v1", Instance: "pod-a_1"}).Set()
			for key, want := range tc.want {
				if got, _ := set.Value(key); got.AsString() != want {
					t.Errorf("%s = %q, want %q", key, got.AsString(), want)
				}
			}
		})
	}
}

// Field case 88: the standard sampler variables are honoured, and every process
// decides a failover alike.
func TestSamplerFromTheEnvironment(t *testing.T) {
	for name, tc := range map[string]struct{ sampler, arg string }{
		"off":         {"always_off", ""},
		"on":          {"", ""},
		"ratio, none": {"traceidratio", "0"},
		"ratio, all":  {"parentbased_traceidratio", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv("OTEL_METRICS_EXPORTER", "none")
			t.Setenv("OTEL_TRACES_SAMPLER", tc.sampler)
			t.Setenv("OTEL_TRACES_SAMPLER_ARG", tc.arg)
			tel := setup(t, Options{ShutdownTimeout: 10 * time.Millisecond})
			evs := []events.Event{{Election: scheduler, Transition: events.BecameLeader, Epoch: 7}}
			failover.New(failover.Options{Provider: tel.Tracers, Election: scheduler}).Publish(t.Context(), evs)
			got := failover.SpanContext(t.Context(), evs[0])
			if want := strings.HasSuffix(name, "all") || name == "on"; got.IsSampled() != want {
				t.Errorf("sampled: %v, want %v", got.IsSampled(), want)
			}
			if want := failover.TraceID(scheduler.Source(), 7); got.TraceID() != want {
				t.Errorf("trace %s, want %s: the provider has not our ids", got.TraceID(), want)
			}
		})
	}
}

// An exemplar leads from a slow hand-over to its trace.
func TestExemplars(t *testing.T) {
	clean(t)
	tel := setup(t, Options{})
	id := trace.TraceID{0xab, 15: 1}
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled}))
	tel.Metrics.Standing(scheduler, "a").Handover(ctx, 20*time.Millisecond)
	if body := scrape(t, tel.Handler, openMetrics); !strings.Contains(body, `trace_id="`+id.String()+`"`) {
		t.Errorf("no exemplar in\n%s", body)
	}
}

// client-go's requests are measured through its own hooks, under the names that
// Kubernetes components use.
func TestKubernetesRequests(t *testing.T) {
	clean(t)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}))
	defer api.Close()
	setup(t, Options{}) // an earlier one in the same process
	tel := setup(t, Options{})
	client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := client.CoordinationV1().Leases("prod").Get(t.Context(), name, metav1.GetOptions{}); err == nil {
			t.Fatal("no error")
		}
	}
	host := strings.TrimPrefix(api.URL, "http://")
	body := scrape(t, tel.Handler, "")
	for _, want := range []string{
		`rest_client_requests_total{code="404",host="` + host + `",method="GET"} 2`,
		`rest_client_request_duration_seconds_count{host="` + host + `",verb="GET"} 2`,
		`rest_client_rate_limiter_duration_seconds_count{host="` + host + `",verb="GET"} 2`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
}

// blackHole accepts connections and never answers.
func blackHole(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return "http://" + l.Addr().String()
}

// Field case 83: a collector that is dead or hangs delays neither a transition
// nor, beyond a bound, the exit.
func TestDeadCollector(t *testing.T) {
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		for name, endpoint := range map[string]func(*testing.T) string{
			"hanging": blackHole,
			"dead":    func(*testing.T) string { return "http://127.0.0.1:1" },
		} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				clean(t)
				t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1000")
				t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
				t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "512")
				// The process would be gone by now; the test waits for the exporter
				// to give up.
				t.Cleanup(func() {
					var err error
					for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
						if err = goleak.Find(); err == nil {
							return
						}
					}
					t.Error(err)
				})
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint(t))
				t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
				var log lines
				const bound = 300 * time.Millisecond
				began := time.Now()
				tel := setup(t, Options{Logger: log.logger(), ShutdownTimeout: bound})
				tracer := failover.New(failover.Options{Provider: tel.Tracers, Election: scheduler})
				const transitions = 3000 // more than the queue holds
				for epoch := range transitions {
					tracer.Publish(t.Context(), []events.Event{{Election: scheduler,
						Transition: events.BecameLeader, Epoch: uint64(epoch) + 1}}).Done(nil)
				}
				if each := time.Since(began) / transitions; each > 20*time.Millisecond {
					t.Errorf("a transition takes %s", each)
				}
				began = time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				cancel() // as it is at exit: it must not cut the bound short
				err := tel.Shutdown(ctx)
				if took := time.Since(began); took > bound+2*time.Second {
					t.Errorf("Shutdown took %s", took)
				}
				if err == nil {
					t.Error("Shutdown tells no error")
				}
				if n := strings.Count(log.String(), "level=WARN"); n > 1 {
					t.Errorf("%d warnings:\n%s", n, &log)
				}
			})
		}
	}
}

// An exporter that ignores its context must not hold up the exit either.
func TestShutdownDoesNotTrustTheExporter(t *testing.T) {
	stuck := make(chan struct{})
	tel := &Telemetry{timeout: 10 * time.Millisecond, shutdowns: []func(context.Context) error{
		func(context.Context) error { <-stuck; return nil }}}
	if err := tel.Shutdown(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
	close(stuck)
}

func TestOneWarningAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		h := &errorHandler{logger: log.logger()}
		h.Handle(errors.New("connection refused"))
		for range 119 {
			time.Sleep(time.Second)
			h.Handle(errors.New("connection refused"))
		}
		if n := strings.Count(log.String(), "connection refused"); n != 2 {
			t.Errorf("%d warnings in two minutes:\n%s", n, &log)
		}
		if !strings.Contains(log.String(), "errors_since_last_warning=59") {
			t.Errorf("the rest is not counted:\n%s", &log)
		}
	})
}

func TestErrorsAreCounted(t *testing.T) {
	clean(t)
	tel := setup(t, Options{})
	otel.Handle(errors.New("one"))
	otel.Handle(errors.New("two"))
	if body := scrape(t, tel.Handler, ""); !strings.Contains(body, `leaderbridge_errors_total{part="telemetry"} 2`) {
		t.Errorf("metrics:\n%s", body)
	}
}

func TestInternalLogLevels(t *testing.T) {
	for env, want := range map[string]string{
		"":      "error warn",
		"none":  "",
		"error": "error",
		"warn":  "error warn",
		"info":  "error warn info",
		"debug": "error warn info debug",
	} {
		t.Run(env, func(t *testing.T) {
			clean(t)
			t.Setenv("OTEL_LOG_LEVEL", env)
			var log lines
			routeInternalLogs(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
			l := logr.FromSlogHandler(&internalHandler{
				Handler: slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}), least: sdkLogLevel()})
			l.Error(errors.New("x"), "error")
			l.V(1).Info("warn")
			l.V(4).Info("info")
			l.V(8).Info("debug")
			var got []string
			for line := range strings.SplitSeq(log.String(), "\n") {
				for _, word := range []string{"error", "warn", "info", "debug"} {
					if strings.Contains(line, "msg="+word) {
						got = append(got, word)
						if !strings.Contains(line, "level="+strings.ToUpper(word)) {
							t.Errorf("%s: %s", word, line)
						}
					}
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
