package kubeenv

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// shared is the server that all tests of the binary use. There is one binary
// per package, so this is not shared between packages.
var shared struct {
	mu     sync.Mutex
	stop   func() error
	server *APIServer
	err    error
	inMain bool
}

// Main runs the tests of a package, stops the server that they shared, fails
// if goroutines are left over, and exits. Call it from TestMain, and nothing
// after it.
func Main(m *testing.M, options ...goleak.Option) {
	shared.mu.Lock()
	shared.inMain = true
	shared.mu.Unlock()
	testenv.Main(runThenStop{m}, options...)
}

// runThenStop stops the shared server before goroutines are counted, since
// connections to it end with it.
type runThenStop struct{ m *testing.M }

func (r runThenStop) Run() int {
	code := r.m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.stop != nil {
		if err := shared.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the shared test API server:", err)
			return max(code, 1)
		}
	}
	return code
}

// Shared returns the server that all tests of the binary share. The first call
// starts it, which takes some seconds; when that fails, every call fails with
// the same reason. Tests that share it may run in parallel, each with a
// namespace of its own, and must not kill, pause or restart it.
func Shared(tb testing.TB) *APIServer {
	tb.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.inMain {
		tb.Fatal("start the shared test API server: nobody would stop it: call kubeenv.Main from this package's TestMain")
	}
	if shared.server == nil && shared.err == nil {
		shared.server, shared.stop, shared.err = start()
	}
	if shared.err != nil {
		tb.Fatalf("start the shared test API server: %v", shared.err)
	}
	return shared.server
}

// Option changes how a server is set up.
type Option func(*APIServer)

// EtcdThrough lets the API server reach etcd through something that the test
// puts in between. The function is told etcd's host and port, before etcd is
// there, and returns those that the API server is to use.
func EtcdThrough(between func(etcd string) string) Option {
	return func(s *APIServer) { s.between = between }
}

// Start runs a server of the test's own until the test ends. What it logged is
// shown if the test fails.
func Start(tb testing.TB, options ...Option) *APIServer {
	tb.Helper()
	server, stop, err := start(options...)
	if err != nil {
		tb.Fatalf("start a test API server: %v", err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("end of the API server's log:\n%s", server.logTail())
		}
		if err := stop(); err != nil {
			tb.Errorf("stop the test API server: %v", err)
		}
	})
	return server
}
