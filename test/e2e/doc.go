// Package e2e tests the real command on a real API server and real NATS
// servers: what a user sees.
package e2e
