// Package worker runs something in one place at a time, for as long as a grant
// from an election's leader lasts.
//
// A [Handler] is what runs: a Go function of this package's type, a process
// (package process) or a WebAssembly module (package wasm). It is called with a
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
// A [Grant] is the other side of a Term: whoever received the grant prolongs
// and ends it there, and runs the handler with [Grant.Run]. [Restart] starts a
// handler that fails again, with growing pauses, until it asks to give the
// grant back so that another worker may try.
package worker
