package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// host stands in for a test, so that the servers of test/testenv can be used
// here as they are. What they need of testing.TB is below; the rest would panic.
type host struct {
	testing.TB
	ctx      context.Context
	name     string
	cleanups []func()
	failed   bool
}

func newHost(ctx context.Context, name string) *host { return &host{ctx: ctx, name: name} }

// failure is what Fatal panics with; recover turns it into an error.
type failure struct{ text string }

func (h *host) recover(err *error) {
	switch v := recover().(type) {
	case nil:
	case failure:
		*err = errors.New(v.text)
	default:
		panic(v)
	}
}

// clean undoes what was done, last first.
func (h *host) clean() {
	for len(h.cleanups) > 0 {
		last := h.cleanups[len(h.cleanups)-1]
		h.cleanups = h.cleanups[:len(h.cleanups)-1]
		var err error
		func() {
			defer h.recover(&err)
			last()
		}()
		if err != nil {
			h.progress("clean up: %v", err)
		}
	}
}

func (h *host) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %-10s %s\n", time.Now().Format("15:04:05"), h.name, fmt.Sprintf(format, args...))
}

// Helper does nothing, since failures have no line numbers here.
func (h *host) Helper() {}

// Name returns the name of the benchmark.
func (h *host) Name() string { return h.name }

// Context ends when the run is interrupted.
func (h *host) Context() context.Context { return h.ctx }

// Cleanup registers what is to be done at the end of the benchmark.
func (h *host) Cleanup(f func()) { h.cleanups = append(h.cleanups, f) }

// Failed reports whether the benchmark could not be finished.
func (h *host) Failed() bool { return h.failed }

// Fatal ends the benchmark.
func (h *host) Fatal(args ...any) {
	h.failed = true
	panic(failure{strings.TrimSpace(fmt.Sprintln(args...))})
}

// Fatalf ends the benchmark.
func (h *host) Fatalf(format string, args ...any) { h.Fatal(fmt.Sprintf(format, args...)) }

// Errorf shows a failure and goes on.
func (h *host) Errorf(format string, args ...any) {
	h.failed = true
	h.progress(format, args...)
}

// Logf shows a text.
func (h *host) Logf(format string, args ...any) { h.progress(format, args...) }

// TempDir makes a folder that is gone at the end of the benchmark.
func (h *host) TempDir() string {
	dir, err := os.MkdirTemp("", "leaderbridge-"+filepath.Base(h.name)+"-")
	h.must(err)
	h.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// must ends the benchmark if there is an error.
func (h *host) must(err error) {
	if err != nil {
		h.Fatal(err)
	}
}
