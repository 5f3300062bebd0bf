package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"k8s.io/client-go/rest"

	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// site is where a benchmark takes place: an API server that all of them share,
// and a NATS server of its own.
type site struct {
	*host
	root  *site // of the run
	short bool

	api     *kubeenv.APIServer // the root's
	command string             // the root's: the path of the leaderbridge command
	nats    *natsenv.Process
	names   atomic.Int64
}

// sub returns the site of one benchmark.
func (s *site) sub(name string) *site {
	return &site{host: newHost(s.ctx, name), root: s, short: s.short}
}

// pick returns the one for short runs or the one for full ones.
func (s *site) pick(short, full int) int {
	if s.short {
		return short
	}
	return full
}

// kube starts the API server, once in a run.
func (s *site) kube() *kubeenv.APIServer {
	if s.root.api == nil {
		s.progress("starts the API server")
		s.root.api = kubeenv.Start(s.root)
	}
	return s.root.api
}

// config returns credentials for everything, with the rate limits that
// client-go has by itself.
func (s *site) config() *rest.Config {
	cfg := s.kube().Config()
	cfg.QPS, cfg.Burst = 0, 0
	return cfg
}

// log starts the NATS server, once in a benchmark, in a process of its own.
func (s *site) log() *natsenv.Process {
	if s.nats == nil {
		s.nats = natsenv.StartProcess(s, "")
	}
	return s.nats
}

// connect returns a connection to NATS of its own.
func (s *site) connect() *nats.Conn { return s.log().Connect(s) }

// leaderbridge builds the command, once in a run, and returns its path.
func (s *site) leaderbridge() string {
	if s.root.command == "" {
		s.progress("builds the command")
		path := filepath.Join(s.root.TempDir(), "leaderbridge")
		build := exec.CommandContext(s.ctx, "go", "build", "-o", path, "./cmd/leaderbridge") // #nosec G204 -- a path of our own
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		s.must(build.Run())
		s.root.command = path
	}
	return s.root.command
}

// until waits for something that should take moments.
func (s *site) until(what string, ok func() bool) {
	testenv.Eventually(s, ready, func() error {
		if !ok() {
			return errors.New("not yet: " + what)
		}
		return nil
	})
}

// pause lets time pass.
func (s *site) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
		s.Fatal(context.Cause(s.ctx))
	}
}
