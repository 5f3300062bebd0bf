// Package docs holds the documents against what they speak of: it runs their
// commands, compiles their code, and follows their links.
//
// The blocks of a page that begin with
//
//	```sh test
//
// are run by bash, one after the other in one shell, in an empty folder with
// the command at bin/leaderbridge. 127.0.0.1:4222 is a real NATS server, the
// ports 127.0.0.1:8081 to 8089 are replaced by free ones, and KUBECONFIG names
// a real API server with a namespace of its own. A command that fails fails the
// test. A block "text output" right after it is what it prints; "…" stands for
// anything, also for nothing.
//
// All other commands in blocks of "sh" are looked up: the subcommand, each flag
// and each target of make must exist.
package docs
