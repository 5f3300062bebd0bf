// Command receiver is an OTLP endpoint for tests: the OpenTelemetry Collector's
// own receiver, and behind it a file. What arrives is appended to the file as
// the Collector's file exporter writes it, one OTLP JSON message a line.
//
//	receiver -grpc 127.0.0.1:4317 -http 127.0.0.1:4318 -out spans.jsonl
//
// It prints "ready" when it accepts connections, and stops when its standard
// input ends, so that it never outlives the test that started it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
)

func main() {
	grpc := flag.String("grpc", "", "where to listen for OTLP over gRPC, as host:port")
	http := flag.String("http", "", "where to listen for OTLP over HTTP, as host:port")
	out := flag.String("out", "", "the file to append to")
	flag.Parse()
	if err := run(*grpc, *http, *out); err != nil {
		fmt.Fprintln(os.Stderr, "receiver:", err)
		os.Exit(1)
	}
}

func run(grpc, http, out string) error {
	file, err := os.OpenFile(out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	sink := &sink{file: file}

	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	config.Protocols.GRPC.GetOrInsertDefault().NetAddr.Endpoint = grpc
	config.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = http
	settings := receiver.Settings{
		ID: component.NewID(factory.Type()),
		TelemetrySettings: component.TelemetrySettings{
			Logger:         zap.NewNop(),
			TracerProvider: tracenoop.NewTracerProvider(),
			MeterProvider:  metricnoop.NewMeterProvider(),
			Resource:       pcommon.NewResource(),
		},
		BuildInfo: component.NewDefaultBuildInfo(),
	}
	ctx := context.Background()
	traces, err := consumer.NewTraces(sink.traces)
	if err != nil {
		return err
	}
	metrics, err := consumer.NewMetrics(sink.metrics)
	if err != nil {
		return err
	}
	// Both are the same receiver: the factory keeps one for each configuration.
	r, err := factory.CreateTraces(ctx, settings, config, traces)
	if err != nil {
		return err
	}
	if _, err := factory.CreateMetrics(ctx, settings, config, metrics); err != nil {
		return err
	}
	if err := r.Start(ctx, host{}); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, r.Shutdown(ctx))
}

// host is a Collector without extensions.
type host struct{}

func (host) GetExtensions() map[component.ID]component.Component { return nil }

// sink writes what the receiver got.
type sink struct {
	mu   sync.Mutex
	file *os.File
}

func (s *sink) traces(_ context.Context, td ptrace.Traces) error {
	line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
	return s.write(line, err)
}

func (s *sink) metrics(_ context.Context, md pmetric.Metrics) error {
	line, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(md)
	return s.write(line, err)
}

func (s *sink) write(line []byte, err error) error {
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = s.file.Write(append(line, '\n'))
	return err
}
