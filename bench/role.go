package main

import (
	"fmt"
	"os"
)

// roleVariable makes this program one of the processes that are measured.
const roleVariable = "LEADERBRIDGE_BENCH_ROLE"

// roles are what this program can be besides the benchmark.
var roles = map[string]func() error{}

// playRole returns the exit code.
func playRole(name string) int {
	role, ok := roles[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "bench: there is no role %q\n", name)
		return 2
	}
	if err := role(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %s: %v\n", name, err)
		return 1
	}
	return 0
}
