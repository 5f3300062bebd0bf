// Package wasm runs a WebAssembly module for a term, inside the worker, with
// wazero. The module is a WASI preview 1 command: a program with a main
// function, built by Go with GOOS=wasip1, by TinyGo, Rust, C and others.
//
// It has no privileges but those given in [Options]: no files, no environment
// besides the term's own variables, and no network at all. It may write to
// its standard output and error, read the clocks and random numbers, and use
// memory and time up to a limit.
//
// There are two ways to run it. [Module.Handle] runs it as long as the term
// lasts. WebAssembly has no signals, so that the module is not asked to stop:
// it is stopped, in the middle of whatever it does, when the context ends, and
// even if it never makes a call. [Module.HandleEvent] makes a short run for
// one event: a CloudEvent goes in by standard input, and CloudEvents come out
// by standard output, one JSON object in each line. A controller can be
// written in this way as a pure function.
//
// # Limits
//
// A module runs in the worker's process: when that is stopped and goes on
// after the deadline, the module may go on with it for some milliseconds, until
// its context has ended. What it writes elsewhere should carry
// LEADERBRIDGE_EPOCH, so that it can be refused there.
//
// The memory limit is for the module's own memory; compiling it and running it
// takes some more. A call into a mounted directory that hangs, such as on a
// network file system that is away, cannot be broken off.
//
// To be able to stop a module anywhere, every function call and every turn of
// a loop is checked, which makes code that does little else many times slower
// than elsewhere. Between two checks a module cannot be interrupted by Go's
// scheduler, so that one that computes all the time should have a processor
// more than the one the worker needs for itself.
package wasm
