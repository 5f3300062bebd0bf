// Package lines takes what a short run for one event has written to its
// standard output: each line that is a CloudEvent is handed on, any other one
// is logged. Commands and WebAssembly modules have this in common.
package lines
