// Package election stands for election on a lock, such as a Kubernetes Lease,
// and tells of every change. It needs no NATS.
//
// The smallest use:
//
//	lock, err := election.NewLeaseLock(client, "prod", "scheduler")
//	…
//	id, err := election.DefaultIdentity()
//	…
//	e, err := election.New(lock, election.Options{
//		Identity: id,
//		Lead: func(ctx context.Context, term *election.Term) error {
//			return work(ctx) // until ctx ends
//		},
//	})
//	…
//	err = e.Run(ctx) // until ctx ends; term after term
//
// What is promised, as long as every candidate honours the record (plain
// client-go candidates do):
//
//   - At most one term is valid at a time, by Term.Check. The promise rests on
//     the rate of the local clock, which counts suspended time, and never on
//     the time of day.
//   - Lead runs only within a term, never twice at once, and the lock is
//     released only after it has returned.
//   - A standby takes over as soon as it hears of the release, or when the
//     record has not changed for the duration that it stores.
//
// What is not promised: nothing stops work that ignores its context. And when
// somebody deletes or overwrites the record of a live leader, a candidate that
// never saw that leader in the record cannot know of it; Term.Clean is false
// then.
//
// The decisions are made in package internal/core, from data alone. An Elector
// is the goroutine around it: it owns the watch, the timer and the requests.
package election
