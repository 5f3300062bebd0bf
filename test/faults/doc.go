// Package faults runs several real leaderbridge processes against a real API
// server and a NATS cluster of three through faults drawn from a seed, records
// what the Lease and the log went through, and proves or refutes each promise
// over that history.
//
// LEADERBRIDGE_FAULTS_SEED replays a seed, LEADERBRIDGE_FAULTS_FAILOVERS sets
// how many terms to force (the short form is run by "make test", the long one
// by "make test-faults").
package faults
