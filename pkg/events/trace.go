package events

import (
	"encoding/hex"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// The names of the W3C trace context, both as CloudEvents extensions and as
// NATS headers.
const (
	traceParentKey = "traceparent"
	traceStateKey  = "tracestate"
)

// traceContext returns the context in its canonical form, or nothing if the
// parent is malformed; a malformed state is left out alone. So W3C Trace
// Context wants it, and a transition matters more than its trace. Writing the
// context anew also keeps line breaks and the like out of headers.
//
// The propagators of OpenTelemetry would do the same by way of a
// context.Context, which a codec has no other use for.
func traceContext(parent, state string) (string, string) {
	parent = canonicalTraceParent(parent)
	if parent == "" || state == "" {
		return parent, ""
	}
	parsed, err := trace.ParseTraceState(state)
	if err != nil {
		return parent, ""
	}
	return parent, parsed.String()
}

// canonicalTraceParent reads <version>-<trace id>-<span id>-<flags>, all in
// lower-case hexadecimal, and writes it as version 00. Later versions may have
// more behind that, which version 00 may not; version ff is invalid (W3C Trace
// Context, sections 3.2 and 4.3). It returns "" for what is malformed.
func canonicalTraceParent(s string) string {
	const length = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	if len(s) < length || len(s) > length && (s[:2] == "00" || s[length] != '-') {
		return ""
	}
	parts := strings.Split(s[:length], "-")
	if len(parts) != 4 || len(parts[0]) != 2 || len(parts[3]) != 2 || s[:length] != strings.ToLower(s[:length]) {
		return ""
	}
	version, versionErr := hex.DecodeString(parts[0])
	traceID, traceErr := trace.TraceIDFromHex(parts[1])
	spanID, spanErr := trace.SpanIDFromHex(parts[2])
	flags, flagsErr := hex.DecodeString(parts[3])
	if versionErr != nil || traceErr != nil || spanErr != nil || flagsErr != nil || version[0] == 0xff {
		return ""
	}
	known := trace.TraceFlags(flags[0]) & (trace.FlagsSampled | trace.FlagsRandom)
	return "00-" + traceID.String() + "-" + spanID.String() + "-" + known.String()
}
