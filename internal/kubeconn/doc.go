// Package kubeconn is the Kubernetes connection of every command: its flags,
// and what they mean in a pod and outside of one.
package kubeconn
