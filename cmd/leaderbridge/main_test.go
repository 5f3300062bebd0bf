package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// patience is longer than anything here takes on a busy machine.
const patience = 30 * time.Second

// execute runs the program in the test's process.
func execute(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// output may be looked at while it is written.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (o *output) waitFor(t *testing.T, text string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		if got := o.String(); !strings.Contains(got, text) {
			return fmt.Errorf("no %q in\n%s", text, got)
		}
		return nil
	})
}

// start runs the program until stop is called, which returns its exit code.
func start(t *testing.T, args ...string) (stdout, stderr *output, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stdout, stderr = &output{}, &output{}
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, args, strings.NewReader(""), stdout, stderr) }()
	stop = sync.OnceValue(func() int {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("%v wrote\n%s\nand to standard error\n%s", args, stdout, stderr)
		}
	})
	return stdout, stderr, stop
}

// aLog is a server whose log says that pod-b_2 leads prod/scheduler in the
// second term.
func aLog(t *testing.T, options ...natsenv.Option) *natsenv.Server {
	t.Helper()
	srv := natsenv.Start(t, options...)
	log, err := events.Open(t.Context(), srv.Connect(t), events.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"}
	var tail events.Tail
	for i, o := range []events.Observed{
		{Status: events.Held, Holder: "first_1"},
		{Status: events.Ended, Holder: "first_1", Reason: events.Released},
		{Status: events.Held, Holder: "pod-b_2"},
	} {
		o.UID, o.Revision, o.At = "uid", uint64(i+1), time.Now()
		list := events.Reconcile(e, tail, o, events.Reporter{Identity: "bridge", Perspective: events.ByWatcher})
		if tail.Seq, err = log.Append(t.Context(), e, tail.Seq, list...); err != nil {
			t.Fatal(err)
		}
		tail.Last = list[len(list)-1]
	}
	return srv
}
