// Package instruments holds leaderbridge's own metrics: their names, units,
// labels and buckets, and the few methods with which the bridge reports.
//
// [New] makes the instruments of a process. For each election the bridge takes
// an [Election]: with [Metrics.Standing] for one that the process stands in,
// whose series carry its name, and with [Metrics.Watching] for one that it only
// observes. Watched elections share one set of series without names, since a
// cluster has thousands of Leases; the log, not the metrics, tells them apart.
//
// Every method does nothing on a nil receiver, so that a bridge without
// metrics needs no second path. Reporting a state costs an atomic store:
// gauges are computed when they are collected. A transition or an append
// recorded under a sampled span leaves its trace id as an exemplar.
//
// The package uses the OpenTelemetry API only. docs/metrics.md lists every
// metric; a test holds it against this package.
package instruments
