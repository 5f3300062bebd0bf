// Package failover makes the spans of a failover: one trace across the old
// leader, the new one, the candidates that lost and the workers, even when one
// of them is dead.
//
// # One trace without talking
//
// The trace id is a hash of the election and the epoch of the coming term, see
// [TraceID]. Every process that knows both has the trace. Its root span, the
// time without a leader, has a derived id too: every process makes its spans
// children of that root, and the one whose became-leader entered the log, of
// which there is exactly one, exports it. The [IDGenerator] given to the SDK
// makes this work. As samplers by ratio look at the trace id only, processes
// with the same settings also agree on whether a failover is sampled.
//
// # The epoch is certain only at the append
//
// A drain, an observed release or an acquire write happens before anybody can
// know the number of the coming term: the log assigns it. So the bridge reports
// steps with their times when they are over ([Tracer.Step]), and they become
// spans, with those times, once the log has accepted the event that tells the
// epoch ([Tracer.Publish]) or shows that of another process ([Tracer.Settle]).
// What the log refused leaves no span.
//
// Each event's append is a PRODUCER span. The event carries its context, so
// that a subscriber continues the trace below it, and it links to the append of
// the event before. No span is open for longer than an append; the length of a
// term shows as the distance between two traces.
//
// # The other end
//
// [Consumer] makes the spans of one who reacts to an event.
//
// The package uses the OpenTelemetry API only. Everything works on nil and
// then does nothing, at no cost. docs/tracing.md shows how a trace looks.
package failover
