// Package worker runs something in one place at a time, for as long as a grant
// from an election's leader lasts. All it needs is a connection to NATS:
//
//	w, err := worker.New(nc, worker.Options{
//		Election: events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"},
//		Role:     "invoices",
//		Handler:  sync,
//	})
//	…
//	err = w.Run(ctx)
//
// Of all workers of a role one runs its handler. It asks the leader for a grant,
// counts it from the moment it sent the request, renews it in good time, and
// stops when the log says that the leader's term is over, when the leader wants
// the grant back, or when the grant is about to end. docs/workers.md has the
// whole protocol, what is promised and what is not.
//
// A [Handler] is what runs: a Go function of this package's type, a process
// (package process) or a WebAssembly module (package wasm); package feed makes a
// handler of one that is called once for each event. It is called with a
// context and a [Term]. The context ends early enough that the handler can
// return before the term's deadline. The Term says which election and role the
// work is for, carries the epoch, which is the fencing token, and answers with
// [Term.Check] whether the grant is certainly valid at this moment: call it
// right before each write to the outside world, since a process may be paused
// between any two of its instructions.
//
//	func sync(ctx context.Context, t worker.Term) error {
//		for {
//			if err := t.Check(); err != nil {
//				return err
//			}
//			if err := writeWithEpoch(ctx, t.Epoch); err != nil {
//				return err
//			}
//			…
//		}
//	}
//
// Check narrows the window between decision and write, it cannot close it: a
// pause may fall right behind it. Where that matters, the storage must refuse
// writes of an epoch below the last one it has seen; see [Fence].
//
// Time is measured on the boot-time clock, which also runs while the machine
// is suspended.
//
// [Restart] starts a handler that fails again, with growing pauses, until the
// grant is given back so that another worker may try.
//
// [Worker.Snapshot] tells what a worker does, for health checks. With
// Options.Tracers its stops and starts are spans in the trace of the failover.
//
// A [Grant] is the other side of a Term, for those who get their grants in
// another way than a [Worker] does: whoever received the grant prolongs and ends
// it there, and runs the handler with [Grant.Run].
package worker
