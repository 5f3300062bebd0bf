package claim

import (
	"reflect"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

// A leader whose own term is nearly over gives what is left of it. Work that
// began under that would have to stop at once, and could overrun.
func TestAGrantThatIsNearlyOverIsGivenBack(t *testing.T) {
	for _, c := range []struct {
		valid, late time.Duration
		begins      bool
	}{
		{valid: 10 * time.Millisecond},
		{valid: 249 * time.Millisecond},
		{valid: 250 * time.Millisecond, begins: true},
		{valid: 10 * time.Second, begins: true},
		{valid: 400 * time.Millisecond, late: 200 * time.Millisecond},
		{valid: 10 * time.Second, late: 7500 * time.Millisecond, begins: true},
		{valid: 10 * time.Second, late: 8100 * time.Millisecond},
	} {
		now := boottime.Instant(0).Add(time.Hour)
		s := New()
		if acts := s.Step(Moment{Now: now}, Tick{}); !reflect.DeepEqual(acts, []Action{Ask{Seq: 1}}) {
			t.Fatalf("at first: %#v", acts)
		}
		acts := s.Step(Moment{Now: now.Add(c.late)}, Granted{Seq: 1, Epoch: 1, Leader: "a", Valid: c.valid})
		var want Action = Return{Seq: 2}
		if c.begins {
			want = Start{Epoch: 1, Leader: "a", Deadline: now.Add(c.valid)}
		}
		if len(acts) == 0 || acts[0] != want { // a renewal may be due with the start
			t.Errorf("valid for %s, heard of after %s: %#v, want %#v", c.valid, c.late, acts, want)
		}
	}
}
