// Package election stands for election on a lock, such as a Kubernetes Lease,
// and observes locks that others hold. It needs no NATS.
package election
