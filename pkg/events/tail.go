package events

import "errors"

// ErrBehind reports an append that was certainly not made, because the log of
// the election has grown since the tail that it was based on: read the tail
// again and reconcile anew. Of several events on a log that is not atomic, the
// first ones may have been made.
var ErrBehind = errors.New("the log has grown since its tail was read")

// Tail is what the log last said about one election.
type Tail struct {
	// Seq is the stream sequence of the last message; zero when the log holds
	// none of this election. It is the condition of the next append.
	Seq uint64
	// Last is the event at Seq. Where somebody else has written there what is
	// no event of this election, it is the last event before; the zero Event
	// if there is none.
	Last Event
	// Before is what the log said about the election before it was lost, as
	// far as the leaders' bucket still knows; only when Seq is zero. It is the
	// zero Event for an election that is new, when the bucket is lost too, for
	// who may not read it, and in a log that is opened only to be read.
	Before Event
}
