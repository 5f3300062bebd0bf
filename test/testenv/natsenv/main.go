package natsenv

import (
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package whose servers are in the test's process,
// fails if goroutines are left over, and exits. Call it from TestMain, and
// nothing after it.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m,
		// A server that ends while a stream looks for its source leaves this
		// one waiting for an answer, for some seconds.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"),
	)
}
