// Command build makes the programs that tests use, once for each version, in
// the user cache directory.
package main

import (
	"fmt"
	"os"

	"github.com/leaderbridge/leaderbridge/test/testenv/toolenv"
)

func main() {
	for _, tool := range toolenv.All {
		if err := tool.Build(); err != nil {
			fmt.Fprintln(os.Stderr, "test tools:", err)
			os.Exit(1)
		}
	}
}
