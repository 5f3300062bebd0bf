package httpd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is a Source with fixed answers.
type source struct {
	last     time.Time
	limit    time.Duration
	notReady []string
	leader   string
	status   Status
}

func (s source) Heartbeat() (time.Time, time.Duration) { return s.last, s.limit }
func (s source) NotReady() []string                    { return s.notReady }
func (s source) Leader() string                        { return s.leader }
func (s source) Status() Status                        { return s.status }

// start runs a server on a free port until the test ends.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	o.Addr = "127.0.0.1:0"
	s, err := Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

func get(t *testing.T, s *Server, path string) (code int, header http.Header, body string) {
	t.Helper()
	resp, err := http.Get("http://" + s.Addr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// Health must answer before anything else is up (field case 97).
func TestAnswersBeforeThereIsASource(t *testing.T) {
	s := start(t, Options{})
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/healthz": {200, "ok\n"},
		"/readyz":  {503, "the process is starting\n"},
		"/":        {200, `{"name":""}` + "\n"},
		"/status":  {200, `{"alive":true,"ready":false,"notReady":["the process is starting"],"leader":"","queued":0}` + "\n"},
		"/metrics": {404, "404 page not found\n"},
	} {
		if code, _, body := get(t, s, path); code != want.code || body != want.body {
			t.Errorf("%s: %d %q, want %d %q", path, code, body, want.code, want.body)
		}
	}
}

func TestHealthFailsOnlyForAStuckElector(t *testing.T) {
	const limit = 20 * time.Second
	now := time.Now()
	for name, tc := range map[string]struct {
		src  source
		code int
		says string
	}{
		"not begun":          {source{limit: limit}, 200, "ok"},
		"just beaten":        {source{last: now, limit: limit}, 200, "ok"},
		"nothing reachable":  {source{last: now, limit: limit, notReady: []string{"the API server does not answer"}}, 200, "ok"},
		"stuck":              {source{last: now.Add(-limit - time.Second), limit: limit}, 503, "no step for 21"},
		"stuck, though well": {source{last: now.Add(-time.Hour), limit: limit, leader: "a"}, 503, "at most 20s"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Options{})
			s.Use(tc.src)
			if code, _, body := get(t, s, "/healthz"); code != tc.code || !strings.Contains(body, tc.says) {
				t.Errorf("%d %q, want %d and %q", code, body, tc.code, tc.says)
			}
		})
	}
}

func TestStuckAtTheVeryLimit(t *testing.T) {
	now := time.Now()
	src := source{last: now.Add(-20 * time.Second), limit: 20 * time.Second}
	if why := stuck(src, now); why != "" {
		t.Errorf("stuck at the limit: %s", why)
	}
	if why := stuck(src, now.Add(1)); why == "" {
		t.Error("not stuck past the limit")
	}
}

func TestReadyTellsEveryReason(t *testing.T) {
	s := start(t, Options{})
	s.Use(source{notReady: []string{"NATS does not answer", "create leases is forbidden"}})
	code, header, body := get(t, s, "/readyz")
	if code != 503 || body != "NATS does not answer\ncreate leases is forbidden\n" {
		t.Errorf("%d %q", code, body)
	}
	if got := header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control %q", got)
	}
	s.Use(source{})
	if code, _, body := get(t, s, "/readyz"); code != 200 || body != "ok\n" {
		t.Errorf("after all is well: %d %q", code, body)
	}
}

func TestRootAnswersAsTheLeaderElectorSidecar(t *testing.T) {
	s := start(t, Options{})
	s.Use(source{leader: `pod-"b"_5f`})
	code, header, body := get(t, s, "/")
	if code != 200 || header.Get("Content-Type") != "application/json" || body != `{"name":"pod-\"b\"_5f"}`+"\n" {
		t.Errorf("%d %s %q", code, header.Get("Content-Type"), body)
	}
}

func TestStatus(t *testing.T) {
	at := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	s := start(t, Options{})
	s.Use(source{
		last: time.Now().Add(-time.Hour), limit: time.Second, leader: "b",
		status: Status{
			Identity:  "a",
			Elections: []Election{{Cluster: "c", Namespace: "n", Lease: "l", Leader: "b", Epoch: 7, Since: at}},
			Errors:    []Error{{Part: "log", Error: "no servers", At: at, Count: 3}},
		},
	})
	_, _, body := get(t, s, "/status")
	const want = `{"alive":false,"ready":true,"leader":"b","identity":"a",` +
		`"elections":[{"cluster":"c","namespace":"n","lease":"l","leader":"b","leading":false,"epoch":7,"since":"2025-03-01T12:00:00Z"}],` +
		`"queued":0,"errors":[{"part":"log","error":"no servers","at":"2025-03-01T12:00:00Z","count":3}]}` + "\n"
	if body != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
	if !json.Valid([]byte(body)) {
		t.Error("not JSON")
	}
}

func TestNothingElseIsServed(t *testing.T) {
	s := start(t, Options{})
	for _, path := range []string{"/debug/pprof/", "/debug/vars", "/healthz/x", "/leader"} {
		if code, _, _ := get(t, s, path); code != 404 {
			t.Errorf("%s: %d, want 404", path, code)
		}
	}
	resp, err := http.Post("http://"+s.Addr()+"/healthz", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d, want 405", resp.StatusCode)
	}
}

func TestProfilesWhenAskedFor(t *testing.T) {
	s := start(t, Options{Profiling: true})
	if code, _, body := get(t, s, "/debug/pprof/"); code != 200 || !strings.Contains(body, "goroutine") {
		t.Errorf("%d %q", code, body)
	}
}

func TestMetricsAreHandedOn(t *testing.T) {
	var asked atomic.Int32
	s := start(t, Options{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, "up 1\n")
	})})
	if _, _, body := get(t, s, "/metrics"); body != "up 1\n" || asked.Load() != 1 {
		t.Errorf("%q after %d calls", body, asked.Load())
	}
}

func TestTakenPortIsAnError(t *testing.T) {
	s := start(t, Options{})
	_, err := Listen(t.Context(), Options{Addr: s.Addr()})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "--http-addr") {
		t.Errorf("err = %v", err)
	}
}

func TestCloseFreesThePortOfAServerNeverRun(t *testing.T) {
	s, err := Listen(t.Context(), Options{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Listen(t.Context(), Options{Addr: s.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

// A client that keeps its request open must not hold up the exit.
func TestShutdownIsBounded(t *testing.T) {
	entered := make(chan struct{})
	released := make(chan struct{})
	s, err := Listen(t.Context(), Options{Addr: "127.0.0.1:0", Metrics: http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) { close(entered); <-released })})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
	<-entered
	began := time.Now()
	stop()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(began); took > 5*shutdownTimeout {
			t.Errorf("took %s", took)
		}
	case <-time.After(30 * time.Second):
		t.Error("Run does not return")
	}
	close(released)
	if _, err := bufio.NewReader(conn).ReadByte(); err == nil {
		t.Error("the connection is still served")
	}
}
