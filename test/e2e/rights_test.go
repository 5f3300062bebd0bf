package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
)

func leaseRule(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: verbs}
}

// Field cases 11, 23 and 24: a missing permission is said at once, in one line
// that names it, and not again every two seconds; what comes with its return,
// and goes with its loss, follows.
func TestRights(t *testing.T) {
	s := newSite(t)
	api := kubeenv.Shared(t)
	const user = "poor"
	api.Allow(t, s.namespace, user, leaseRule("get", "list", "watch"))
	s.kubeconfig = kubeenv.Kubeconfig(t, api.User(t, user), s.namespace)
	port, err := testenv.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	p := s.replica(user, "--http-addr", addr)

	named := func() []string {
		var lines []string
		for line := range strings.Lines(p.Stderr()) {
			if strings.Contains(line, "create") && strings.Contains(line, "leases") && strings.Contains(line, s.namespace) && strings.Contains(line, "permission") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	testenv.Eventually(t, 20*time.Second, func() error {
		if len(named()) == 0 {
			return errors.New("no line names the missing verb")
		}
		return nil
	})
	resp, err := http.Get("http://" + addr + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("readyz answers %d to a candidate that may not stand", resp.StatusCode)
	}
	testenv.Always(t, 3*time.Second, func() error {
		if n := len(named()); n > 1 {
			return fmt.Errorf("the same line stands %d times", n)
		}
		return nil
	})

	revoke := api.Allow(t, s.namespace, user, leaseRule("create", "update"))
	s.await("a leader", of("scheduler", events.NewLeader, user))
	revoke()
	e, _ := s.await("the end", of("scheduler", events.StoppedLeading, user))
	if e.Reason != events.RenewDeadline {
		t.Errorf("the end of a leader who may not renew is %q", e.Reason)
	}
	api.Allow(t, s.namespace, user, leaseRule("create", "update"))
	s.await("the second term", func(e events.Event) bool { return of("scheduler", events.NewLeader, user)(e) && e.Epoch == 2 })
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(10 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	checkLegal(t, s.events())
}
