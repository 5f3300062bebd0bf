// Package bridge joins an election with the log: it stands for election on a
// lock, records every state of it in the log, and answers requests to the
// leader. It is what "leaderbridge run" runs, without flags, signals or
// connections, so that a test can run several in one process.
package bridge
