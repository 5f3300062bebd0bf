// Package events is the contract between leaderbridge and everybody who reads
// it: the transitions of an election as CloudEvents, their subjects, and the
// log in JetStream that holds them in order.
//
// # The contract
//
// An [Event] is one [Transition] of one [Election]. [Encode] writes it as the
// headers and the data of a NATS message, [Decode] reads it, and
// [Election.Subject] says where it is published. docs/events.md is the same
// contract for consumers in other languages; its examples, the JSON Schema
// beside it and the files in testdata/golden are held against the code by
// tests. The functions of this part do no I/O and are safe for use by several
// goroutines.
//
// # The log
//
// [Open] finds or makes the stream and returns a [Log]. Whoever writes reads an
// election's end with [Log.Tail], decides, and adds to it with [Log.Append] on
// condition that it still is the end; of all who do so at once, one wins. Whoever
// reads follows with [Log.Follow]: the last state first, then every event, without
// a gap. docs/log.md has the permissions, the reasons and the figures.
//
// # The record
//
// [Reconcile] decides, as a pure function, which events make the log true, given
// its end and one [Observed] state of the lock. A [Recorder] does that for as many
// elections as there are, with all that goes with it: it queues what was observed,
// leaves to others what is theirs, and outlasts a log that is away, slow or lost.
package events
