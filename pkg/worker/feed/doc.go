// Package feed calls a function once for each transition of an election, in
// order and by one worker of a role at a time: a function, a short run of a
// command or of a WebAssembly module.
//
//	handle, err := feed.Handler(nc, feed.Options{}, func(ctx context.Context, t worker.Term, e events.Event) error {
//		return announce(ctx, e)
//	})
//	…
//	w, err := worker.New(nc, worker.Options{Election: election, Role: "announcer", Handler: handle})
//
// # Which events a worker gets
//
// The first worker of a role begins with the last event of its election, and
// goes on with every one after it. Each worker after that goes on behind the
// last event that its predecessors have handled, also when that was hours ago,
// or under another leader. So the end of a term, which also ends the workers of
// that term, is handled by a worker of the next.
//
// How far a role has come, its position, is a key in a NATS key-value bucket.
// It is written after each event, under two conditions: that nobody else has
// written it since it was read, and that it carries no later epoch. A worker
// whose grant is over, and that does not know it yet, cannot set it back.
//
// # At least once
//
// An event is handled again if its worker was stopped, or NATS was away, after
// the function had begun and before the position was written; in any other
// case it is handled once. Whatever the function brings about should carry an
// id that follows from the event's.
//
// A function that fails is called again with the same event, after the pauses
// of worker.Restart, and in the end by another worker. The events behind it
// wait: order comes first. To pass over an event, return nil.
//
// The log does not keep events for ever if its stream has limits. What was
// removed before it was handled is missing, and a warning says so. If the log
// was made anew, the role begins again with the last event of its election.
//
// # Why not a durable consumer
//
// A durable consumer on the log would keep a position too. But it knows no
// epochs, so that a worker that is late could acknowledge for its successor;
// it holds the event that a killed worker was busy with back until the
// acknowledgement is overdue, while the position is free at once; and it stays
// on the operator's stream when the role is long forgotten.
package feed
