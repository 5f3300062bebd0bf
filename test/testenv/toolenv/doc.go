// Package toolenv gives tests the programs of other projects that they check
// our work with: Prometheus's promtool and query parser, the OpenTelemetry
// Collector's receiver, kustomize, helm and goreleaser's configuration.
//
// Each comes from Go modules, which are modules of their own beside this
// package, so that their many dependencies stay out of ours. "make test-tools"
// builds them, once for each version, into the user cache directory. Tests
// build nothing: a build takes minutes, and a test binary has a time limit.
package toolenv
