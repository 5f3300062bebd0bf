// Package faults runs several real leaderbridge processes, candidates and
// workers, against a real API server and a NATS cluster of three through faults
// drawn from a seed, records what the Lease, the log and the work went through,
// and proves or refutes each promise over that history.
//
// The faults are in three decks, each dealt in an order that the seed decides:
// those of the servers that all elections share (ground_test.go), those of an
// election's leader and its Lease (kinds_test.go), and those of workers
// (crew_test.go). What is checked is in history_test.go and work_test.go.
//
// LEADERBRIDGE_FAULTS_SEED replays a seed, LEADERBRIDGE_FAULTS_FAILOVERS sets
// how many failovers to force, and LEADERBRIDGE_FAULTS_ELECTIONS in how many
// elections at once. The short form, in which each fault comes at least once,
// is run by "make test", the long one by "make test-faults".
package faults
