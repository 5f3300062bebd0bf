package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// Done, refused, nobody there and timed out are different answers.
func TestStepDown(t *testing.T) {
	s := newSite(t)
	a := s.replica("a")
	s.await("a", became(1))
	s.replica("b")
	c := s.replica("c")
	ask := func(args ...string) (int, string) {
		p := procenv.Start(t, "step-down", nil, append([]string{"step-down", "--nats-url", s.nats.URL(), "--timeout", "10s", s.namespace + "/scheduler"}, args...)...)
		return p.Wait(20 * time.Second), p.Stdout() + p.Stderr()
	}
	for _, p := range []*procenv.Process{c} { // it must be standing to be favoured
		waitFor(t, p, "a")
	}
	if code, out := ask("--to", "c"); code != 0 || !strings.HasPrefix(out, "c leads") || !strings.Contains(out, "term 2") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if code, out := ask("--to", "c"); code != 3 {
		t.Errorf("a leader asked to hand over to itself: exit code %d: %s", code, out)
	}
	p := procenv.Start(t, "step-down", nil, "step-down", "--nats-url", s.nats.URL(), "prod/nobody")
	if code := p.Wait(20 * time.Second); code != 4 {
		t.Errorf("without a leader: exit code %d: %s", code, p.Stderr())
	}
	down := natsenv.Start(t)
	down.Stop()
	p = procenv.Start(t, "step-down", nil, "step-down", "--nats-url", down.URL(), "--timeout", "1s", "prod/scheduler")
	if code := p.Wait(20 * time.Second); code != 5 {
		t.Errorf("without NATS: exit code %d: %s", code, p.Stderr())
	}
	a.Signal(syscall.SIGTERM)
	if code := a.Wait(10 * time.Second); code != 0 {
		t.Errorf("a exited with %d", code)
	}
	var reasons []events.Reason
	for _, e := range s.events() {
		if e.Transition == events.StoppedLeading {
			reasons = append(reasons, e.Reason)
		}
	}
	if len(reasons) != 1 || reasons[0] != events.StepDown {
		t.Errorf("ends: %v, want one step-down", reasons)
	}
	checkLegal(t, s.events())
}
