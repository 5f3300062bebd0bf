// Package show turns the log into what people and pipes read: who leads what
// (Leaders, WatchLeaders), and what happened (Events). It needs nothing but
// the log, so it works for whoever may read the stream.
//
// People get tables that fit their terminal, with colours and relative times.
// A pipe gets the same columns in full width and without colours, or JSON or
// YAML, which are meant for programs and do not change with the terminal.
//
// Identities come from whoever may write a Lease: whatever could steer a
// terminal is shown escaped.
package show
