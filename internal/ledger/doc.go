// Package ledger is a leader's account of the grants it has given: which worker
// may act in which role, and until when. It is a value with rules and nothing
// else: no clock, no I/O, no goroutine. Time is handed in.
//
// The rules:
//
//   - A role is held by one worker at a time, until that worker gives it back
//     or its time is over.
//   - No grant outlasts the leader's own term as it stands at that moment. As
//     the worker counts from the moment it sent its request, its own end of the
//     grant comes before the one written here.
//   - While the leader drains, no role is given anew, and none is prolonged
//     beyond the drain's deadline.
//   - A leader whose predecessor may not have ended cleanly gives nothing
//     before the predecessor's grants must have lapsed.
package ledger
