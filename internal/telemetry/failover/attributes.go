package failover

import (
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// scope is the instrumentation scope of the spans.
const scope = "github.com/leaderbridge/leaderbridge"

// Attributes that no semantic convention has. Those of the election are the
// same as the metrics' labels.
const (
	clusterKey        = attribute.Key("election.cluster")
	namespaceKey      = attribute.Key("election.namespace")
	leaseKey          = attribute.Key("election.lease")
	identityKey       = attribute.Key("election.identity")
	epochKey          = attribute.Key("election.epoch")
	leaderKey         = attribute.Key("election.leader")
	previousLeaderKey = attribute.Key("election.previous_leader")
	reasonKey         = attribute.Key("election.reason")
	perspectiveKey    = attribute.Key("election.perspective")
	missedKey         = attribute.Key("election.missed")
	outcomeKey        = attribute.Key("election.outcome")
	attemptsKey       = attribute.Key("election.append.attempts")
	roleKey           = attribute.Key("election.worker.role")
)

// natsSystem is the value of messaging.system; the conventions allow names that
// they do not list.
var natsSystem = semconv.MessagingSystemKey.String("nats")

// Operation names of messaging spans.
const (
	publish = "publish"
	process = "process"
)

func electionAttributes(e events.Election) []attribute.KeyValue {
	return []attribute.KeyValue{
		clusterKey.String(e.Cluster),
		namespaceKey.String(e.Namespace),
		leaseKey.String(e.Lease),
	}
}

// number is an attribute for an epoch or a count of them: at most events.MaxEpoch.
func number(key attribute.Key, n uint64) attribute.KeyValue {
	return key.Int64(int64(n)) // #nosec G115
}

// template is the subject with its variable parts named: span names must not
// grow in number with the elections.
func template(prefix string, t events.Transition) string {
	return prefix + ".event.{cluster}.{namespace}.{lease}." + string(t)
}

// messageAttributes describe the message of an event, for both ends.
func messageAttributes(prefix string, ev events.Event) []attribute.KeyValue {
	attributes := append(electionAttributes(ev.Election),
		natsSystem,
		semconv.MessagingDestinationName(ev.Election.Subject(prefix, ev.Transition)),
		semconv.MessagingDestinationTemplate(template(prefix, ev.Transition)),
		semconv.MessagingMessageID(ev.ID()),
		semconv.CloudEventsEventID(ev.ID()),
		semconv.CloudEventsEventSource(ev.Election.Source()),
		semconv.CloudEventsEventSpecVersion("1.0"),
		semconv.CloudEventsEventType(ev.Type()),
		number(epochKey, ev.Epoch),
		reasonKey.String(string(ev.Reason)),
		perspectiveKey.String(string(ev.Perspective)),
	)
	if ev.Leader != "" {
		attributes = append(attributes, leaderKey.String(ev.Leader))
	}
	if ev.PreviousLeader != "" {
		attributes = append(attributes, previousLeaderKey.String(ev.PreviousLeader))
	}
	if ev.Missed > 0 {
		attributes = append(attributes, number(missedKey, ev.Missed))
	}
	return attributes
}
