// Command bench measures leaderbridge on this machine, against a real API server
// and a real NATS server:
//
//	go run ./bench            # everything, about ten minutes
//	go run ./bench -short     # everything, three minutes, fewer samples
//	go run ./bench -only hand-over,worker
//
// Each benchmark takes ours, the peer (client-go's leaderelection, or whatever
// people use today) and the floor (bare clients that do only what cannot be
// left out) in turns, in one run. What it reports are therefore ratios and
// distributions of that run, on whatever machine it was. Progress goes to
// standard error and the table to standard output. The rows go to
// bench/results.json, and the table of a full run into docs/performance.md.
//
// One file holds one benchmark. What they share is in site.go (the servers),
// candidate.go (our side), bare.go (the floor), clientgo.go (the peer) and
// stats.go; main.go runs them and table.go shows what came out.
package main
