package testenv

import "go.uber.org/goleak"

// Main runs the tests of a package, fails if goroutines are left over, and
// exits. Call it from TestMain, and nothing after it.
//
// What a NATS server in the test's own process leaves behind is not counted. A
// server that ends while it makes a stream never closes the stream (seen with
// version 2.15.3): the shutdown closes the streams that it finds, and this one
// comes later. It stays with its store and, if it has a source, with the
// search for it. In a process of its own the server takes all of it along.
func Main(m goleak.TestingM, options ...goleak.Option) {
	const server = "github.com/nats-io/nats-server/v2/server"
	goleak.VerifyTestMain(m, append([]goleak.Option{
		goleak.IgnoreAnyFunction(server + ".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreAnyFunction(server + ".(*stream).trySetupSourceConsumer.func3"),
		goleak.IgnoreAnyFunction(server + "/ats.Register.func1"),
	}, options...)...)
}
