package desired

import (
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What Diff says makes of whatever there is what there should be, leaves what
// belongs to others, and has nothing more to say then.
func TestDiffBringsAboutWhatIsWanted(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	tenants := rapid.MapOf(name, rapid.Custom(func(t *rapid.T) Tenant {
		return Tenant{MaxAckPending: rapid.IntRange(0, 2).Draw(t, "pending")}
	}))
	rapid.Check(t, func(t *rapid.T) {
		want := Consumers(tenants.Draw(t, "tenants"))
		foreign := Consumer{Name: "audit", Filter: "orders.>", MaxAckPending: 1}
		have := append(Consumers(tenants.Draw(t, "before")), foreign)
		put, drop := Diff(want, have)
		for _, c := range put {
			have = slices.DeleteFunc(have, func(h Consumer) bool { return h.Name == c.Name })
			have = append(have, c)
		}
		have = slices.DeleteFunc(have, func(h Consumer) bool { return slices.Contains(drop, h.Name) })
		if len(have) != len(want)+1 || !slices.Contains(have, foreign) {
			t.Fatalf("there is %v, want %v", have, want)
		}
		if put, drop = Diff(want, have); len(put)+len(drop) > 0 {
			t.Fatalf("not done: put %v, drop %v", put, drop)
		}
	})
}
