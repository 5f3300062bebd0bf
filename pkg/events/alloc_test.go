package events_test

import (
	"testing"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Budgets of what every replica, worker and reader does for each event. They
// are a little above what was measured; a change that exceeds one needs a
// reason.
func TestEventsStayWithinTheirBudget(t *testing.T) {
	e := example()
	for mode, budget := range map[events.ContentMode]struct{ encode, decode float64 }{
		events.Structured: {20, 39},
		events.Binary:     {44, 29},
	} {
		header, data, err := events.Encode(e, mode)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(200, func() {
			if _, _, err := events.Encode(e, mode); err != nil {
				t.Fatal(err)
			}
		}); n > budget.encode {
			t.Errorf("%s: Encode makes %.0f allocations, want at most %.0f", mode, n, budget.encode)
		}
		if n := testing.AllocsPerRun(200, func() {
			if _, err := events.Decode(header, data); err != nil {
				t.Fatal(err)
			}
		}); n > budget.decode {
			t.Errorf("%s: Decode makes %.0f allocations, want at most %.0f", mode, n, budget.decode)
		}
	}
}
