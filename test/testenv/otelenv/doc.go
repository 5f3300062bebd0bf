// Package otelenv runs a real OTLP endpoint for tests, the OpenTelemetry
// Collector's own receiver, in a process of its own, and reads back what
// arrived there: also from other processes, and from those that were killed.
package otelenv
