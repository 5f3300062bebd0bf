// Package memlock is an election lock in memory, for tests of the election
// that need faults no real store produces on demand, or a synctest bubble that
// no socket survives. A Store plays the API server: its revisions rise, each
// creation has a uid of its own, and a write whose base is stale is refused. A
// Lock is one candidate's connection to it, and the place where faults happen:
//
//	store := memlock.NewStore()
//	a, b := store.Open("a"), store.Open("b")
//	a.Intercept(func(c memlock.Call) memlock.Fault {
//		return memlock.Fault{LoseAnswer: c.Op == memlock.Update}
//	})
//
// It passes the conformance suite of package locktest, as the real locks do.
package memlock
