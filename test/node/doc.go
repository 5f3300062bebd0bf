// Package node tests what takes Node.js or npm: the follower in
// examples/node-follower, on a real NATS server and with the real command, and
// docs/asyncapi.yaml against the official schema, which is an npm package.
package node
