// Package node tests what this repository has for Node.js, with Node.js: the
// follower in examples/node-follower, on a real NATS server and with the real
// command.
package node
