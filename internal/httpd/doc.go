// Package httpd is the one HTTP server of a leaderbridge process, for probes,
// scrapers, scripts and people:
//
//	/healthz   200 unless the elector is stuck: the liveness probe
//	/readyz    200, or 503 with one reason a line: the readiness probe
//	/metrics   the Prometheus scrape
//	/status    JSON: who leads what, what is not ready, the last errors
//	/          {"name":"<leader>"}, as the classic leader-elector sidecar
//
// [Listen] opens the port, so that a taken one is an error at start, and
// [Server.Run] serves until its context ends. The server needs nothing but its
// port: it answers before Kubernetes or NATS were reached, and while they are
// away. What it tells comes from a [Source], handed over with [Server.Use] as
// soon as there is one.
//
// The server is for the cluster's inside: it knows neither TLS nor users, and
// changes nothing. Profiling is off unless asked for.
package httpd
