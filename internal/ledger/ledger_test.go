package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

func request(role, instance string, seq uint64) events.GrantRequest {
	return events.GrantRequest{Role: role, Worker: "worker of " + instance, Instance: instance, Seq: seq}
}

func TestOneHolderPerRole(t *testing.T) {
	l := New(0)
	if until, no := l.Grant(100, 200, request("sync", "a", 1)); no != nil || until != 200 {
		t.Fatalf("first: %d, %+v", until, no)
	}
	if _, no := l.Grant(150, 300, request("sync", "b", 1)); no == nil || no.Reason != events.RefusedHeld || no.RetryAfter != 50 || no.Holder != "worker of a" {
		t.Errorf("second: %+v", no)
	}
	if _, no := l.Grant(150, 300, request("other", "b", 1)); no != nil {
		t.Errorf("another role: %+v", no)
	}
	if until, no := l.Grant(199, 300, request("sync", "a", 2)); no != nil || until != 300 {
		t.Errorf("prolonged: %d, %+v", until, no)
	}
	if until, no := l.Grant(300, 400, request("sync", "b", 2)); no != nil || until != 400 {
		t.Errorf("after the lapse: %d, %+v", until, no)
	}
}

// What comes late does not change what came later: field case of a return that
// overtakes, or is overtaken by, a request.
func TestLateRequests(t *testing.T) {
	l := New(0)
	mustGrant := func(r events.GrantRequest) {
		t.Helper()
		if _, no := l.Grant(10, 100, r); no != nil {
			t.Fatalf("%+v: %+v", r, no)
		}
	}
	mustGrant(request("sync", "a", 2))
	if l.Return(11, request("sync", "a", 1)) {
		t.Error("a return that is older than the grant took it back")
	}
	if l.Return(11, request("sync", "b", 9)) {
		t.Error("another worker gave it back")
	}
	if !l.Return(11, request("sync", "a", 4)) || l.Return(11, request("sync", "a", 4)) {
		t.Error("a return must free the role, once")
	}
	if _, no := l.Grant(12, 100, request("sync", "a", 3)); no == nil || no.Reason != events.RefusedStale {
		t.Errorf("a request from before the return: %+v", no)
	}
	mustGrant(request("sync", "b", 1))
}

func TestDrain(t *testing.T) {
	l := New(0)
	_, _ = l.Grant(0, 100, request("sync", "a", 1))
	l.Drain(150)
	if until, no := l.Grant(50, 200, request("sync", "a", 2)); no != nil || until != 150 {
		t.Errorf("the holder may go on until the drain's end: %d, %+v", until, no)
	}
	if _, no := l.Grant(50, 200, request("other", "a", 3)); no == nil || no.Reason != events.RefusedDraining {
		t.Errorf("a new role while draining: %+v", no)
	}
	if l.Settled() != 150 || l.Outstanding(149) != 1 || l.Outstanding(150) != 0 {
		t.Errorf("settled at %d", l.Settled())
	}
	if _, no := l.Grant(150, 300, request("sync", "a", 4)); no == nil || no.Reason != events.RefusedDraining {
		t.Errorf("the holder after the drain: %+v", no)
	}
}

func TestUncleanPredecessor(t *testing.T) {
	l := New(1000)
	if _, no := l.Grant(900, 2000, request("sync", "a", 1)); no == nil || no.Reason != events.RefusedNotYet || no.RetryAfter != 100 {
		t.Errorf("too early: %+v", no)
	}
	if l.Settled() != 1000 {
		t.Errorf("settled at %d: what the predecessor gave counts too", l.Settled())
	}
	if _, no := l.Grant(1000, 2000, request("sync", "a", 2)); no != nil {
		t.Errorf("in time: %+v", no)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	l := New(0)
	for i := range maxRoles {
		if _, no := l.Grant(0, 100, request(fmt.Sprint("r", i), "a", uint64(i)+1)); no != nil {
			t.Fatal(no)
		}
	}
	if _, no := l.Grant(50, 100, request("more", "a", 1e6)); no == nil || no.Reason != events.RefusedFull {
		t.Errorf("one more: %+v", no)
	}
	if _, no := l.Grant(100, 200, request("more", "a", 1e6)); no != nil {
		t.Errorf("after the others have lapsed: %+v", no)
	}
}

// Against a dull model: the list of all grants ever given, each with its end.
func TestLedgerAgainstAModel(t *testing.T) {
	type given struct {
		role, instance string
		from, until    boottime.Instant
	}
	rapid.Check(t, func(t *rapid.T) {
		notBefore := boottime.Instant(rapid.Int64Range(0, 50).Draw(t, "notBefore"))
		l := New(notBefore)
		var all []given
		var seq uint64
		now, drainBy := boottime.Instant(0), never
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "pass")))
			seq++
			r := request(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "role"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "who"), seq)
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			default:
				term := now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "term")))
				until, no := l.Grant(now, term, r)
				if no != nil {
					continue
				}
				i := slices.IndexFunc(all, func(g given) bool { return g.role == r.Role && g.until > now })
				switch {
				case now < notBefore:
					t.Fatalf("given at %d, before %d", now, notBefore)
				case i >= 0 && all[i].instance != r.Instance:
					t.Fatalf("given to %s at %d while %s has it until %d", r.Instance, now, all[i].instance, all[i].until)
				case i < 0 && drainBy != never:
					t.Fatalf("given anew while draining")
				case i < 0 && until != term:
					t.Fatalf("until %d, want %d", until, term)
				case i >= 0 && until != max(all[i].until, min(term, drainBy)):
					t.Fatalf("prolonged to %d from %d (term %d, drain %d)", until, all[i].until, term, drainBy)
				case i >= 0:
					all[i].until = until
				default:
					all = append(all, given{r.Role, r.Instance, now, until})
				}
			case 0, 1, 2:
				freed := l.Return(now, r)
				i := slices.IndexFunc(all, func(g given) bool {
					return g.role == r.Role && g.instance == r.Instance && g.until > now
				})
				if freed != (i >= 0) {
					t.Fatalf("return by %s: freed %v", r.Instance, freed)
				}
				if i >= 0 {
					all[i].until = now
				}
			case 3:
				if rapid.IntRange(0, 9).Draw(t, "drain") == 0 {
					drainBy = min(drainBy, now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "by"))))
					l.Drain(drainBy)
				}
			case 4:
				l.Lapse(now)
			}
			n, settled := 0, notBefore
			for _, g := range all {
				if g.until > now {
					n++
					settled = max(settled, g.until)
				}
			}
			if got := l.Outstanding(now); got != n {
				t.Fatalf("%d outstanding, want %d", got, n)
			}
			if got := l.Settled(); got > now && got != settled {
				t.Fatalf("settled at %d, want %d", got, settled)
			}
		}
	})
}
