//go:build unix

package process

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

func TestPlanOfAnOrdinaryGrant(t *testing.T) {
	now := boottime.Instant(time.Hour)
	s := schedule{plan: newPlan(10*time.Second, 10*time.Second), deadline: now.Add(10 * time.Second)}
	term, killAt := s.moments()
	if got, want := term.Sub(now), 10*time.Second-500*time.Millisecond-10*time.Second/3; got != want {
		t.Errorf("SIGTERM after %v, want %v", got, want)
	}
	if got, want := killAt.Sub(now), 9500*time.Millisecond; got != want {
		t.Errorf("SIGKILL after %v, want %v", got, want)
	}
}

func drawSchedule(t *rapid.T) (s schedule, now boottime.Instant) {
	now = boottime.Instant(rapid.Int64Range(0, 1e15).Draw(t, "now"))
	validity := time.Duration(rapid.Int64Range(1, 1e12).Draw(t, "validity"))
	grace := time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "grace"))
	return schedule{plan: newPlan(validity, grace), deadline: now.Add(validity)}, now
}

func TestBothMomentsFallInsideTheGrant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := drawSchedule(t)
		if rapid.Bool().Draw(t, "stopping") {
			s.stop(now.Add(time.Duration(rapid.Int64Range(0, 2e12).Draw(t, "after"))))
		}
		term, killAt := s.moments()
		if term > killAt || killAt > s.last() || s.last() > s.deadline {
			t.Fatalf("term %d, kill %d, last %d, deadline %d", term, killAt, s.last(), s.deadline)
		}
		if s.deadline.Sub(now) >= 10*time.Second && s.deadline.Sub(killAt) < 500*time.Millisecond {
			t.Fatalf("only %v between SIGKILL and the deadline", s.deadline.Sub(killAt))
		}
		if term < now {
			t.Fatalf("a grant that just began is over %v ago", now.Sub(term))
		}
	})
}

// A guard that looks at any moments it likes asks exactly once, kills from the
// due moment on and never before it, whatever it is told meanwhile.
func TestScheduleAgainstAPlainModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := drawSchedule(t)
		var askedAt boottime.Instant
		for range 50 {
			switch rapid.IntRange(0, 3).Draw(t, "input") {
			case 0:
				to := now.Add(time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(t, "to")))
				before := s.deadline
				s.extend(to)
				if s.deadline != max(before, to) {
					t.Fatalf("deadline %d after %d and %d", s.deadline, before, to)
				}
			case 1:
				s.stop(now)
			}
			step, at := s.next(now)
			_, killAt := s.moments()
			switch step {
			case ask:
				if askedAt != 0 {
					t.Fatal("asked twice")
				}
				askedAt = now
			case kill:
				if now < s.deadline.Add(-s.Margin) && (s.stopping == 0 || now < s.stopping.Add(s.Grace)) {
					t.Fatal("killed too early")
				}
			case wait:
				if now >= killAt {
					t.Fatal("not killed although it is due")
				}
				if s.stopping != 0 && askedAt == 0 {
					t.Fatal("told to stop and not asked")
				}
			}
			if step != kill && at > s.deadline.Add(-s.Margin) {
				t.Fatalf("sleeps %v past the moment to kill", at.Sub(killAt))
			}
			now = now.Add(time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "pause")))
			if rapid.Bool().Draw(t, "wake as told") {
				now = max(now, at)
			}
		}
	})
}
