// Package natsenv runs real NATS servers with JetStream for tests, inside the
// test's own process, on loopback and on free ports:
//
//	server := natsenv.Start(t)
//	js := server.JetStream(t)
//
// StartCluster runs three of them as one cluster. Servers can be stopped and
// started again with the same port and the same files. Everything is gone when
// the test ends. What a server logs is shown only if the test fails.
//
// Stop ends such a server the way SIGTERM ends nats-server: it hands over what
// it leads and closes its files. A lost machine is harsher than that. For it,
// StartProcess and StartProcesses run servers in processes of their own, which
// Kill ends with SIGKILL and Pause stops.
package natsenv
