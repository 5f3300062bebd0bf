package telemetry

import (
	"context"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// serviceName is what the process is called unless OTEL_SERVICE_NAME or
// OTEL_RESOURCE_ATTRIBUTES says otherwise.
const serviceName = "leaderbridge"

// describe makes the resource: what is the same for everything that this
// process reports. The environment comes last, so that it wins.
//
// It leaves out the command line, since a flag may hold a URL with a password.
func describe(ctx context.Context, o Options) *resource.Resource {
	attributes := []attribute.KeyValue{semconv.ServiceName(serviceName)}
	add := func(value string, attribute func(string) attribute.KeyValue) {
		if value != "" {
			attributes = append(attributes, attribute(value))
		}
	}
	add(o.Version, semconv.ServiceVersion)
	add(o.Instance, semconv.ServiceInstanceID)
	// The manifests in deploy/ set these from the pod's own fields.
	add(os.Getenv("POD_NAME"), semconv.K8SPodName)
	add(os.Getenv("POD_UID"), semconv.K8SPodUID)
	add(os.Getenv("POD_NAMESPACE"), semconv.K8SNamespaceName)
	add(os.Getenv("NODE_NAME"), semconv.K8SNodeName)
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithHost(),
		resource.WithProcessPID(),
		resource.WithProcessRuntimeName(),
		resource.WithProcessRuntimeVersion(),
		resource.WithAttributes(attributes...),
		resource.WithFromEnv(),
	)
	if err != nil {
		// A part could not be found out or understood; the rest is there.
		otel.Handle(err)
	}
	return res
}
