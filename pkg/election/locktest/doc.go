// Package locktest checks that an election.Lock keeps the promises that the
// election relies on. Every lock must pass it, on the store that it is for:
//
//	func TestMyLock(t *testing.T) {
//		locktest.Run(t, func(t *testing.T) locktest.Fixture {
//			return locktest.Fixture{Open: …, Delete: …, Overwrite: …}
//		})
//	}
//
// What it cannot see from outside remains with the lock's own tests: the texts
// of errors, the format of what is stored, and faults of the store's own kind.
package locktest
