package telemetry

import (
	"context"
	"errors"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	clientmetrics "k8s.io/client-go/tools/metrics"

	"github.com/leaderbridge/leaderbridge/internal/telemetry/instruments"
)

// clientInstruments are the metrics of requests to the Kubernetes API, under
// the names that every Kubernetes component uses, so that existing dashboards
// fit.
type clientInstruments struct {
	duration metric.Float64Histogram
	limiter  metric.Float64Histogram
	requests metric.Int64Counter
	retries  metric.Int64Counter
}

// client is what client-go's hooks report to. client-go takes hooks only once
// in a process, while tests set up telemetry often: the hooks stay, and what
// they report to is the latest.
var client atomic.Pointer[clientInstruments]

func measureKubernetesClients(provider metric.MeterProvider) error {
	meter := provider.Meter(instruments.Scope)
	var errs []error
	histogram := func(name, description string) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(instruments.Buckets()...))
		errs = append(errs, err)
		return h
	}
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	client.Store(&clientInstruments{
		duration: histogram("rest_client.request.duration", "Time to the answer of the Kubernetes API, by verb and host."),
		limiter:  histogram("rest_client.rate_limiter.duration", "Time that requests to the Kubernetes API waited in this process."),
		requests: counter("rest_client.requests", "{request}", "Requests to the Kubernetes API, by status code, method and host."),
		retries:  counter("rest_client.request.retries", "{retry}", "Retries of requests to the Kubernetes API."),
	})
	clientmetrics.Register(clientmetrics.RegisterOpts{
		RequestLatency:     clientHook{},
		RateLimiterLatency: limiterHook{},
		RequestResult:      clientHook{},
		RequestRetry:       clientHook{},
	})
	return errors.Join(errs...)
}

// clientHook and limiterHook are client-go's hooks. They leave out the path of a
// request, since names of objects in labels have no bound.
type (
	clientHook  struct{}
	limiterHook struct{}
)

func (clientHook) Observe(ctx context.Context, verb string, u url.URL, latency time.Duration) {
	if c := client.Load(); c != nil {
		c.duration.Record(ctx, latency.Seconds(), verbAndHost(verb, u))
	}
}

func (limiterHook) Observe(ctx context.Context, verb string, u url.URL, latency time.Duration) {
	if c := client.Load(); c != nil {
		c.limiter.Record(ctx, latency.Seconds(), verbAndHost(verb, u))
	}
}

func (clientHook) Increment(ctx context.Context, code, method, host string) {
	if c := client.Load(); c != nil {
		c.requests.Add(ctx, 1, codeMethodHost(code, method, host))
	}
}

func (clientHook) IncrementRetry(ctx context.Context, code, method, host string) {
	if c := client.Load(); c != nil {
		c.retries.Add(ctx, 1, codeMethodHost(code, method, host))
	}
}

func verbAndHost(verb string, u url.URL) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("verb", verb), attribute.String("host", u.Host))
}

func codeMethodHost(code, method, host string) metric.MeasurementOption {
	return metric.WithAttributes(
		attribute.String("code", code), attribute.String("method", method), attribute.String("host", host))
}
