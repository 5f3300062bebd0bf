// Package testenv holds what tests of every package share: the check for left
// goroutines, waiting for a condition without sleeping, and free ports that
// stay free across a restart.
//
// The servers themselves are next door. Package natsenv runs real NATS
// servers, package kubeenv a real Kubernetes API server. They are apart so
// that a test which needs only NATS does not link the Kubernetes client.
//
// A missing prerequisite fails a test. It never skips one: a test that did not
// run must not look like a test that passed.
package testenv
