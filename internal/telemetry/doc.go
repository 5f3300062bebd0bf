// Package telemetry sets up OpenTelemetry for a leaderbridge process, from the
// standard OTEL_* environment variables. It is the only package that imports
// the SDK; everything else gets providers, or the instruments and tracers of
// the packages below this one.
//
// [Setup] never contacts anybody, and nothing that it returns ever waits for a
// collector: spans go into a bounded queue and are exported in the background,
// and what does not fit is dropped. A collector that is dead or hangs costs one
// warning a minute, and at exit at most the bound of [Telemetry.Shutdown].
//
// Metrics are always served for Prometheus. Traces, and metrics over OTLP, are
// sent only where the environment names an exporter or an endpoint; see
// docs/tracing.md for the variables.
package telemetry
