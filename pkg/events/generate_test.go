package events_test

import (
	"strings"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"pgregory.net/rapid"
)

// Generators of legal values, for the property tests.

func genLabel() *rapid.Generator[string] {
	return rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`)
}

func genElection() *rapid.Generator[events.Election] {
	return rapid.Custom(func(t *rapid.T) events.Election {
		lease := strings.Join(rapid.SliceOfN(genLabel(), 1, 3).Draw(t, "lease"), ".")
		return events.Election{
			Cluster:   genLabel().Draw(t, "cluster"),
			Namespace: genLabel().Draw(t, "namespace"),
			Lease:     lease,
		}
	})
}

func genPrefix() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		tokens := rapid.SliceOfN(rapid.StringMatching(`[a-zA-Z0-9][a-zA-Z0-9_-]{0,9}`), 1, 4).Draw(t, "tokens")
		return strings.Join(tokens, ".")
	})
}

func genTransition() *rapid.Generator[events.Transition] {
	return rapid.SampledFrom([]events.Transition{events.BecameLeader, events.StoppedLeading, events.NewLeader})
}

// genIdentity favours the names that people really had trouble with.
func genIdentity() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom(oddIdentities()),
		rapid.StringMatching(`[a-z0-9-]{1,20}_[0-9a-f]{8}`),
		rapid.StringN(1, 40, events.MaxIdentity),
	)
}

func oddIdentities() []string {
	return []string{
		"ip-10-0-0-1.eu.internal_3f2a", "node 1", "a*b", "x>y", strings.Repeat("n", 200), "ünï",
		"line\nbreak", "100% héllo", `quo"ted`, `back\slash`, "nul\x00", "\u2028", "tab\there",
		"%41", "😀", " lead and trail ", "</script>", strings.Repeat("\n", events.MaxIdentity),
	}
}

func genTime() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		at := time.Unix(
			rapid.Int64Range(-62135596800+1, 253402300799).Draw(t, "seconds"),
			rapid.Int64Range(0, 999_999_999).Draw(t, "nanos"),
		)
		return at.UTC()
	})
}

func genEvent() *rapid.Generator[events.Event] {
	return rapid.Custom(func(t *rapid.T) events.Event {
		e := events.Event{
			Election:    genElection().Draw(t, "election"),
			Transition:  genTransition().Draw(t, "transition"),
			UID:         rapid.StringMatching(`[!-~]{1,40}`).Draw(t, "uid"),
			Epoch:       rapid.Uint64Range(1, events.MaxEpoch).Draw(t, "epoch"),
			Time:        genTime().Draw(t, "time"),
			Missed:      rapid.Uint64Range(0, events.MaxEpoch).Draw(t, "missed"),
			Reporter:    genIdentity().Draw(t, "reporter"),
			Perspective: rapid.SampledFrom([]events.Perspective{events.ByLeader, events.ByWitness, events.ByWatcher}).Draw(t, "perspective"),
			Revision:    rapid.Uint64().Draw(t, "revision"),
		}
		if e.Transition == events.StoppedLeading {
			e.PreviousLeader = genIdentity().Draw(t, "previous")
			e.Reason = rapid.SampledFrom([]events.Reason{
				events.Released, events.Expired, events.RenewDeadline, events.Superseded,
				events.Deleted, events.StepDown, events.Unhealthy,
			}).Draw(t, "reason")
		} else {
			e.Leader = genIdentity().Draw(t, "leader")
			e.Reason = rapid.SampledFrom([]events.Reason{events.Acquired, events.Resumed, events.TakenOver}).Draw(t, "reason")
			if rapid.Bool().Draw(t, "hasPrevious") {
				e.PreviousLeader = genIdentity().Draw(t, "previous")
			}
		}
		if rapid.Bool().Draw(t, "hasTransitions") {
			e.LeaseTransitions = new(rapid.IntRange(0, 1<<31-1).Draw(t, "transitions"))
		}
		if rapid.Bool().Draw(t, "hasDuration") {
			e.LeaseDurationSeconds = new(rapid.IntRange(0, 1<<31-1).Draw(t, "duration"))
		}
		if rapid.Bool().Draw(t, "hasLeaderless") {
			e.LeaderlessMillis = new(rapid.Int64Range(0, 1<<53).Draw(t, "leaderless"))
		}
		if rapid.Bool().Draw(t, "hasAcquire") {
			e.AcquireTime = genTime().Draw(t, "acquire")
		}
		if rapid.Bool().Draw(t, "hasRenew") {
			e.RenewTime = genTime().Draw(t, "renew")
		}
		if rapid.Bool().Draw(t, "hasTrace") {
			e.TraceParent = rapid.StringMatching(`00-[0-9a-f]{31}1-[0-9a-f]{15}1-0[01]`).Draw(t, "traceparent")
			if rapid.Bool().Draw(t, "hasState") {
				e.TraceState = rapid.SampledFrom([]string{"rojo=00f067aa0ba902b7", "a=1,b=2", `v=per%20cent"quote`}).Draw(t, "tracestate")
			}
		}
		return e
	})
}
