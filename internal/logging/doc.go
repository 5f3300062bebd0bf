// Package logging makes the process's logger: log/slog as text or JSON, with
// three habits that a process which runs for months among others needs.
//
//   - A line written under a span carries its trace_id and span_id, so that a
//     log leads to the trace and back.
//   - A warning or an error that repeats is said once, then as a count: after a
//     minute, and ever less often while it goes on, down to every quarter of an
//     hour. A last line tells when it has stayed away for a minute.
//   - What libraries log goes the same way: client-go's klog and the standard
//     log package, see [TakeOver].
//
// Lines below warning are never held back. Folding costs one line for an error
// that happens once: the same that it costs without.
package logging
