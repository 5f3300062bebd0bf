// Package logbook is the log of a process that runs whether or not NATS does:
// it opens the log when it can be reached, and keeps a Recorder informed of
// what the log says.
package logbook
