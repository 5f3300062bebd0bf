package events_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"pgregory.net/rapid"
)

func genMode() *rapid.Generator[events.ContentMode] {
	return rapid.SampledFrom([]events.ContentMode{events.Structured, events.Binary})
}

// What is encoded comes back the same, in either mode, with headers that every
// client can carry, and below the size that Decode accepts.
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
			if len(values) != 1 || strings.IndexFunc(name+values[0], func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
				t.Fatalf("header %q: %q is not plain", name, values)
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

// Both modes say the same, attribute for attribute.
func TestModesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genEvent().Draw(t, "event")
		_, whole, err := events.Encode(e, events.Structured)
		if err != nil {
			t.Fatal(err)
		}
		header, data, err := events.Encode(e, events.Binary)
		if err != nil {
			t.Fatal(err)
		}
		var structured map[string]json.RawMessage
		if err := json.Unmarshal(whole, &structured); err != nil {
			t.Fatal(err)
		}
		if got := string(structured["data"]); got != string(data) {
			t.Fatalf("data is %s in structured and %s in binary mode", got, data)
		}
		delete(structured, "data")
		for name, raw := range structured {
			want := strings.Trim(string(raw), `"`)
			_ = json.Unmarshal(raw, &want)
			got := percentDecode(t, header.Get("ce-"+name))
			if got != want {
				t.Fatalf("%s is %q in structured and %q in binary mode", name, want, got)
			}
			// Field case 75: names that every SDK accepts.
			if !regexp.MustCompile(`^[a-z0-9]{1,20}$`).MatchString(name) {
				t.Fatalf("%s is no attribute name", name)
			}
		}
		for name := range header {
			if attribute, ok := strings.CutPrefix(name, "ce-"); ok && structured[attribute] == nil {
				t.Fatalf("%s stands in binary mode only", name)
			}
		}
	})
}

// percentDecode is another's reading of the binding: one round, nothing else.
func percentDecode(t interface{ Fatal(...any) }, s string) string {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) {
			t.Fatal("a percent sign that introduces nothing: " + s)
		}
		high, low := strings.IndexByte("0123456789ABCDEF", s[i+1]), strings.IndexByte("0123456789ABCDEF", s[i+2])
		if high < 0 || low < 0 {
			t.Fatal("a percent sign that introduces nothing: " + s)
		}
		out = append(out, byte(high<<4|low))
		i += 2
	}
	return string(out)
}

// The subject is the identity, percent-encoded; the binary mode encodes that
// once more, as it does every value, so that readers who decode once see the
// same in both modes (cloudevents/sdk-go#1334).
func TestSubjectOfOddIdentities(t *testing.T) {
	for identity, want := range map[string]string{
		"pod-b_5f3a9c1e":               "pod-b_5f3a9c1e",
		"ip-10-0-0-1.eu.internal_3f2a": "ip-10-0-0-1.eu.internal_3f2a",
		"100% héllo":                   "100%25%20h%C3%A9llo",
		"node 1":                       "node%201",
		"a*b":                          "a%2Ab",
		"x>y":                          "x%3Ey",
		"line\nbreak":                  "line%0Abreak",
		"ünï":                          "%C3%BCn%C3%AF",
		"a/b:c":                        "a%2Fb%3Ac",
	} {
		e := example()
		e.Leader = identity
		header, data, err := events.Encode(e, events.Structured)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Subject string }
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if got.Subject != want {
			t.Errorf("%q: structured subject is %s, want %s", identity, got.Subject, want)
		}
		if len(header) != 3 {
			t.Errorf("%q: structured headers are %v", identity, header)
		}
		header, _, err = events.Encode(e, events.Binary)
		if err != nil {
			t.Fatal(err)
		}
		if got := percentDecode(t, header.Get("ce-subject")); got != want {
			t.Errorf("%q: binary subject is %s, want %s", identity, got, want)
		}
	}
}

// The longest that every field may be still passes Decode.
func TestLargestEvent(t *testing.T) {
	worst := strings.Repeat("\x01", events.MaxIdentity)
	e := example()
	e.Election.Cluster = strings.Repeat("a", 63)
	e.Election.Namespace = strings.Repeat("b", 63)
	e.Election.Lease = strings.Repeat("c", 253)
	e.UID = strings.Repeat("%", 128)
	e.Leader, e.PreviousLeader, e.Reporter = worst, worst, worst
	for _, mode := range []events.ContentMode{events.Structured, events.Binary} {
		header, data, err := events.Encode(e, mode)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := events.Decode(header, data); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// A trace context that is none is left out: it costs neither the event nor
// the safety of the headers.
func TestEncodeLeavesOutBrokenTrace(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, tc := range []struct{ name, parent, state, wantParent, wantState string }{
		{"none", "", "", "", ""},
		{"state alone", "", "a=1", "", ""},
		{"malformed parent", "00-zz", "a=1", "", ""},
		{"malformed state", parent, "\r\nX: y", parent, ""},
		{"a later version with a tail", "01" + parent[2:] + "-\r\nX: y", "", parent, ""},
	} {
		for _, mode := range []events.ContentMode{events.Structured, events.Binary} {
			t.Run(tc.name+"/"+string(mode), func(t *testing.T) {
				e := example()
				e.TraceParent, e.TraceState = tc.parent, tc.state
				header, data, err := events.Encode(e, mode)
				if err != nil {
					t.Fatal(err)
				}
				if got := header.Get("traceparent"); got != tc.wantParent {
					t.Errorf("traceparent is %q, want %q", got, tc.wantParent)
				}
				if got := header.Get("tracestate"); got != tc.wantState {
					t.Errorf("tracestate is %q, want %q", got, tc.wantState)
				}
				back, err := events.Decode(nil, data)
				if mode == events.Structured && (err != nil || back.TraceParent != tc.wantParent || back.TraceState != tc.wantState) {
					t.Errorf("extension is %q, %q, %v", back.TraceParent, back.TraceState, err)
				}
			})
		}
	}
}

func TestEncodeContentMode(t *testing.T) {
	header, _, err := events.Encode(example(), "")
	if err != nil || header.Get("Content-Type") != "application/cloudevents+json" {
		t.Errorf("the default is not structured: %v, %v", header, err)
	}
	_, _, err = events.Encode(example(), "batch")
	wantComplaint(t, err, `content mode "batch" is not known: want structured or binary`)
}

func asJSON(t interface{ Fatal(...any) }, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The members of an event are written by hand. Package json is asked what they
// should be.
func TestEncodeIsWhatPackageJSONWrites(t *testing.T) {
	type data struct {
		Cluster              string             `json:"cluster"`
		Namespace            string             `json:"namespace"`
		Lease                string             `json:"lease"`
		UID                  string             `json:"uid"`
		Epoch                uint64             `json:"epoch"`
		Leader               string             `json:"leader"`
		PreviousLeader       string             `json:"previousLeader,omitempty"`
		Reason               events.Reason      `json:"reason"`
		Missed               uint64             `json:"missed"`
		LeaseTransitions     *int               `json:"leaseTransitions,omitempty"`
		LeaseDurationSeconds *int               `json:"leaseDurationSeconds,omitempty"`
		AcquireTime          time.Time          `json:"acquireTime,omitzero"`
		RenewTime            time.Time          `json:"renewTime,omitzero"`
		LeaderlessMillis     *int64             `json:"leaderlessMillis,omitempty"`
		Reporter             string             `json:"reporter"`
		Perspective          events.Perspective `json:"perspective"`
		Revision             uint64             `json:"revision,omitempty,string"`
	}
	rapid.Check(t, func(t *rapid.T) {
		e := genEvent().Draw(t, "event")
		_, got, err := events.Encode(e, events.Binary)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(data{
			e.Election.Cluster, e.Election.Namespace, e.Election.Lease, e.UID, e.Epoch, e.Leader, e.PreviousLeader, e.Reason, e.Missed,
			e.LeaseTransitions, e.LeaseDurationSeconds, e.AcquireTime.UTC(), e.RenewTime.UTC(), e.LeaderlessMillis,
			e.Reporter, e.Perspective, e.Revision,
		}); err != nil {
			t.Fatal(err)
		}
		if string(got) != strings.TrimSuffix(want.String(), "\n") {
			t.Fatalf("Encode writes\n%s\npackage json\n%s", got, want.String())
		}
	})
}
