package otelenv

import (
	"strconv"
	"time"
)

// Span is a span as the receiver got it.
type Span struct {
	TraceID, SpanID, ParentID string
	Name                      string
	// Kind is "internal", "server", "client", "producer" or "consumer".
	Kind       string
	Start, End time.Time
	// Attributes and Resource hold values as text.
	Attributes, Resource map[string]string
	Links                []Link
	// Failed tells whether the status is an error, and Status why.
	Failed bool
	Status string
}

// Link is a span's link to another.
type Link struct{ TraceID, SpanID string }

// Spans returns the spans received so far, in the order of their arrival.
func (r *Receiver) Spans() []Span {
	r.tb.Helper()
	var spans []Span
	for _, m := range r.messages() {
		for _, of := range m.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					span := Span{
						TraceID: s.TraceID, SpanID: s.SpanID, ParentID: s.ParentSpanID,
						Name: s.Name, Kind: kinds[s.Kind],
						Start: s.StartTimeUnixNano.time(), End: s.EndTimeUnixNano.time(),
						Attributes: s.Attributes.strings(), Resource: of.Resource.Attributes.strings(),
						Failed: s.Status.Code == 2, Status: s.Status.Message,
					}
					for _, l := range s.Links {
						span.Links = append(span.Links, Link{l.TraceID, l.SpanID})
					}
					spans = append(spans, span)
				}
			}
		}
	}
	return spans
}

// Metrics returns the names of the metrics received so far.
func (r *Receiver) Metrics() map[string]bool {
	r.tb.Helper()
	names := map[string]bool{}
	for _, m := range r.messages() {
		for _, of := range m.ResourceMetrics {
			for _, scope := range of.ScopeMetrics {
				for _, metric := range scope.Metrics {
					names[metric.Name] = true
				}
			}
		}
	}
	return names
}

var kinds = map[int]string{1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}

// message is the part of OTLP's JSON encoding that tests look at.
type message struct {
	ResourceSpans []struct {
		Resource   resource
		ScopeSpans []struct {
			Spans []struct {
				TraceID           string
				SpanID            string
				ParentSpanID      string
				Name              string
				Kind              int
				StartTimeUnixNano nanos
				EndTimeUnixNano   nanos
				Attributes        attributes
				Links             []struct{ TraceID, SpanID string }
				Status            struct {
					Code    int
					Message string
				}
			}
		}
	}
	ResourceMetrics []struct {
		Resource     resource
		ScopeMetrics []struct {
			Metrics []struct{ Name string }
		}
	}
}

type resource struct{ Attributes attributes }

// nanos is a time; OTLP's JSON writes 64-bit numbers as strings.
type nanos string

func (n nanos) time() time.Time {
	ns, _ := strconv.ParseInt(string(n), 10, 64)
	return time.Unix(0, ns)
}

type attributes []struct {
	Key   string
	Value struct {
		StringValue *string
		IntValue    *string
		BoolValue   *bool
	}
}

func (a attributes) strings() map[string]string {
	m := map[string]string{}
	for _, kv := range a {
		switch v := kv.Value; {
		case v.StringValue != nil:
			m[kv.Key] = *v.StringValue
		case v.IntValue != nil:
			m[kv.Key] = *v.IntValue
		case v.BoolValue != nil:
			m[kv.Key] = strconv.FormatBool(*v.BoolValue)
		}
	}
	return m
}
