// Package deploy holds tests that try what deploy/ ships against the real
// thing: its NATS configuration in real servers, with the real commands as
// their users, and its manifests on a real API server, with the real commands
// under the rights that the manifests give.
package deploy
