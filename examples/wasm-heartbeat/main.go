// Command wasm-heartbeat is a module that runs for as long as a term lasts: it writes
// one line a second.
//
//	GOOS=wasip1 GOARCH=wasm go build -o heartbeat.wasm ./examples/wasm-heartbeat
//	leaderbridge worker --election prod/scheduler --role heart --wasm heartbeat.wasm
//
// It is not told when the term ends: it is stopped.
package main

import (
	"os"
	"strconv"
	"time"
)

func main() {
	who := os.Getenv("LEADERBRIDGE_IDENTITY") + " in epoch " + os.Getenv("LEADERBRIDGE_EPOCH")
	for beat := 1; ; beat++ {
		if _, err := os.Stdout.WriteString(who + ": beat " + strconv.Itoa(beat) + "\n"); err != nil {
			os.Exit(1)
		}
		time.Sleep(time.Second)
	}
}
