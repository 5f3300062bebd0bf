package events_test

import (
	"encoding/json"
	"testing"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"pgregory.net/rapid"
)

func genMode() *rapid.Generator[events.ContentMode] {
	return rapid.SampledFrom([]events.ContentMode{events.Structured, events.Binary})
}

// What is encoded comes back the same, in either mode, with headers that every
// client can carry.
func TestEncodeDecodeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genEvent().Draw(t, "event")
		header, data, err := events.Encode(e, genMode().Draw(t, "mode"))
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(data) {
			t.Fatalf("not JSON: %s", data)
		}
		for name, values := range header {
			for _, c := range name + values[0] {
				if c <= ' ' && name != "traceparent" && name != "tracestate" || c > '~' {
					t.Fatalf("header %q: %q has %q", name, values[0], c)
				}
			}
		}
		got, err := events.Decode(header, data)
		if err != nil {
			t.Fatal(err)
		}
		if want := asJSON(t, e); asJSON(t, got) != want {
			t.Fatalf("came back as\n%s\nwant\n%s", asJSON(t, got), want)
		}
	})
}

func asJSON(t interface{ Fatal(...any) }, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
