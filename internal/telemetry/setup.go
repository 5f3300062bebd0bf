package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/propagators/autoprop"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/leaderbridge/leaderbridge/internal/telemetry/failover"
	"github.com/leaderbridge/leaderbridge/internal/telemetry/instruments"
)

// DefaultShutdownTimeout bounds [Telemetry.Shutdown]. More gives a slow
// collector a better chance to get the last spans, and a dead one more of the
// time that a pod has to stop.
const DefaultShutdownTimeout = 2 * time.Second

// Options configure a process's telemetry.
type Options struct {
	// Version is the program's, for the resource.
	Version string
	// Instance names the process in the resource: its identity in elections.
	Instance string
	// Logger takes what goes wrong with exporting; nil for nobody.
	Logger *slog.Logger
	// ShutdownTimeout is DefaultShutdownTimeout when zero.
	ShutdownTimeout time.Duration
}

// Telemetry is what a process reports with.
type Telemetry struct {
	// Tracers makes spans. It is nil when no exporter is configured: tracing is
	// off then, and costs nothing.
	Tracers trace.TracerProvider
	// Meters makes instruments. It is nil when OTEL_SDK_DISABLED is true.
	Meters metric.MeterProvider
	// Propagator writes and reads trace contexts of messages that are not
	// events: an event's own context has the format that its contract says.
	Propagator propagation.TextMapPropagator
	// Metrics are leaderbridge's own instruments; nil without Meters.
	Metrics *instruments.Metrics
	// Handler answers Prometheus scrapes.
	Handler http.Handler

	timeout   time.Duration
	shutdowns []func(context.Context) error
}

// Setup makes the telemetry of this process. Call Shutdown at the end. An error
// is a setting that nobody can follow, such as an unknown exporter.
//
// It sets OpenTelemetry's global error handler and logger and client-go's
// metrics hooks, which are global by their nature, and no other global.
func Setup(ctx context.Context, o Options) (*Telemetry, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ShutdownTimeout == 0 {
		o.ShutdownTimeout = DefaultShutdownTimeout
	}
	t := &Telemetry{timeout: o.ShutdownTimeout}
	report := routeInternalLogs(o.Logger)
	t.Propagator = autoprop.NewTextMapPropagator()

	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// Exemplars exist in the OpenMetrics format only.
	t.Handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	})
	if disabled() {
		return t, nil
	}

	res := describe(ctx, o)
	if err := t.startMetrics(ctx, registry, res); err != nil {
		return nil, errors.Join(err, t.Shutdown(ctx))
	}
	report.count(t.Metrics)
	if err := t.startTraces(ctx, res); err != nil {
		return nil, errors.Join(err, t.Shutdown(ctx))
	}
	return t, nil
}

func (t *Telemetry) startMetrics(ctx context.Context, registry prometheus.Registerer, res *resource.Resource) error {
	scrape, err := otelprometheus.New(
		otelprometheus.WithRegisterer(registry),
		// The scope is the same for all, and only lengthens every series.
		otelprometheus.WithoutScopeInfo(),
	)
	if err != nil {
		return fmt.Errorf("serve metrics for Prometheus: %w", err)
	}
	options := []sdkmetric.Option{sdkmetric.WithResource(res), sdkmetric.WithReader(scrape)}
	if configured("METRICS") {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return fmt.Errorf("export metrics (OTEL_METRICS_EXPORTER): %w", err)
		}
		if !autoexport.IsNoneMetricReader(reader) {
			options = append(options, sdkmetric.WithReader(reader))
		}
	}
	provider := sdkmetric.NewMeterProvider(options...)
	t.shutdowns = append(t.shutdowns, provider.Shutdown)
	t.Meters = provider
	if t.Metrics, err = instruments.New(ctx, provider); err != nil {
		return err
	}
	return measureKubernetesClients(provider)
}

func (t *Telemetry) startTraces(ctx context.Context, res *resource.Resource) error {
	if !configured("TRACES") {
		return nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return fmt.Errorf("export traces (OTEL_TRACES_EXPORTER): %w", err)
	}
	if autoexport.IsNoneSpanExporter(exporter) {
		return nil
	}
	// The provider itself reads OTEL_TRACES_SAMPLER, and the processor its
	// OTEL_BSP_ variables.
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(res),
		sdktrace.WithIDGenerator(failover.IDGenerator{}),
		sdktrace.WithBatcher(exporter),
	)
	t.shutdowns = append(t.shutdowns, provider.Shutdown)
	t.Tracers = provider
	return nil
}

// Shutdown exports what is left and stops, within the configured bound even if
// ctx has none or is cancelled, as it often is at exit. Whatever is left then is
// lost. A second call does nothing.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.timeout)
	defer cancel()
	shutdowns := t.shutdowns
	t.shutdowns = nil
	// In parallel, since one dead collector must not use up the time of another,
	// and without waiting for one that does not heed its context.
	done := make(chan error, len(shutdowns))
	for _, shutdown := range shutdowns {
		go func() { done <- shutdown(ctx) }()
	}
	var errs []error
	for range shutdowns {
		select {
		case err := <-done:
			errs = append(errs, err)
		case <-ctx.Done():
			return fmt.Errorf("export the last telemetry: not done within %s: %w", t.timeout, ctx.Err())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("export the last telemetry: %w", err)
	}
	return nil
}

// disabled tells what OTEL_SDK_DISABLED says. The specification has every value
// but "true" mean false.
func disabled() bool {
	return strings.EqualFold(strings.TrimSpace(os.Getenv("OTEL_SDK_DISABLED")), "true")
}

// configured tells whether the environment wants a signal exported. The
// specification's default is an exporter to localhost, which for most would
// mean an error a minute: an endpoint or an exporter must be named.
func configured(signal string) bool {
	for _, name := range []string{
		"OTEL_" + signal + "_EXPORTER",
		"OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT",
		"OTEL_EXPORTER_OTLP_ENDPOINT",
	} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}
