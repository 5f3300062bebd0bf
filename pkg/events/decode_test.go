package events_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/textproto"
	"strings"
	"testing"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/nats-io/nats.go"
)

// message is an encoded event that a test may bend.
type message struct {
	header nats.Header
	// attributes is the structured form; data is the binary form's data.
	attributes, data map[string]any
}

func structured(t *testing.T) *message {
	t.Helper()
	header, body, err := events.Encode(example(), events.Structured)
	if err != nil {
		t.Fatal(err)
	}
	m := &message{header: header, attributes: parseObject(t, body)}
	data, ok := m.attributes["data"].(map[string]any)
	if !ok {
		t.Fatal("data is no object")
	}
	m.data = data
	return m
}

func binary(t *testing.T) *message {
	t.Helper()
	header, body, err := events.Encode(example(), events.Binary)
	if err != nil {
		t.Fatal(err)
	}
	return &message{header: header, data: parseObject(t, body)}
}

func (m *message) body(t *testing.T) []byte {
	t.Helper()
	var v any = m.data
	if m.attributes != nil {
		v = m.attributes
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parseObject(t *testing.T, b []byte) map[string]any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var o map[string]any
	if err := dec.Decode(&o); err != nil {
		t.Fatal(err)
	}
	return o
}

func rename(h nats.Header, from, to string) {
	h[to] = h[from]
	delete(h, from)
}

// What other writers and relays make of our messages is read all the same.
func TestDecodeAccepts(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(*testing.T) *message
		bend func(*message)
	}{
		{"structured as written", structured, func(*message) {}},
		{"structured without any header, as sdk-go sends it", structured, func(m *message) { m.header = nil }},
		{"structured with a header in another case", structured, func(m *message) { rename(m.header, "Content-Type", "CONTENT-TYPE") }},
		{"structured with a charset", structured, func(m *message) {
			m.header.Set("Content-Type", "Application/CloudEvents+JSON; charset=utf-8")
		}},
		{"structured with the bare media type of the binding", structured, func(m *message) {
			m.header.Set("Content-Type", "application/cloudevents")
		}},
		{"structured marked with the media type of JSON", structured, func(m *message) {
			m.header.Set("Content-Type", "application/json")
		}},
		{"structured with left-over binary headers", structured, func(m *message) { m.header.Set("ce-specversion", "0.3") }},
		{"data in base64", structured, func(m *message) {
			b, _ := json.Marshal(m.data)
			m.attributes["data_base64"] = base64.StdEncoding.EncodeToString(b)
			delete(m.attributes, "data")
		}},
		{"data_base64 null beside data", structured, func(m *message) { m.attributes["data_base64"] = nil }},
		{"epoch as a string", structured, func(m *message) { m.attributes["epoch"] = "7" }},
		{"no epoch extension", structured, func(m *message) { delete(m.attributes, "epoch") }},
		{"epoch extension null", structured, func(m *message) { m.attributes["epoch"] = nil }},
		{"no datacontenttype", structured, func(m *message) { delete(m.attributes, "datacontenttype") }},
		{"datacontenttype with charset", structured, func(m *message) {
			m.attributes["datacontenttype"] = "application/json; charset=utf-8"
		}},
		{"no subject and no schema", structured, func(m *message) {
			delete(m.attributes, "subject")
			delete(m.attributes, "dataschema")
		}},
		{"time with an offset", structured, func(m *message) { m.attributes["time"] = "2025-06-01T14:00:00.123456789+02:00" }},
		{"attributes of a later version", structured, func(m *message) { m.attributes["severity"] = "high" }},
		{"data of a later version", structured, func(m *message) { m.data["zone"] = map[string]any{"name": "eu"} }},
		{"names that differ in case are other names", structured, func(m *message) {
			m.data["Epoch"] = 9
			m.data["LEADER"] = "x"
			m.attributes["ID"] = "x"
			m.attributes["Data"] = "x"
		}},
		{"binary as written", binary, func(*message) {}},
		{"binary with headers in another case", binary, func(m *message) {
			for name := range m.header {
				if strings.HasPrefix(name, "ce-") {
					rename(m.header, name, textproto.CanonicalMIMEHeaderKey(name))
				}
			}
		}},
		{"binary with the media type where HTTP has it", binary, func(m *message) {
			rename(m.header, "ce-datacontenttype", "Content-Type")
		}},
		{"binary with both media types", binary, func(m *message) { m.header.Set("content-type", "application/json") }},
		{"binary with quoted values of older writers", binary, func(m *message) {
			m.header.Set("ce-id", `"`+m.header.Get("ce-id")+`"`)
			m.header.Set("ce-type", `"io.\leaderbridge.became-leader.v1"`)
		}},
		{"binary with needless and lower-case escapes", binary, func(m *message) {
			m.header.Set("ce-type", "io%2eleaderbridge%2Ebecame-leader.v1")
		}},
		{"binary with spaces around a value", binary, func(m *message) { m.header.Set("ce-specversion", " 1.0 ") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := tc.make(t)
			tc.bend(m)
			got, err := events.Decode(m.header, m.body(t))
			if err != nil {
				t.Fatal(err)
			}
			if asJSON(t, got) != asJSON(t, example()) {
				t.Errorf("got\n%s\nwant\n%s", asJSON(t, got), asJSON(t, example()))
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, tc := range []struct {
		name      string
		make      func(*testing.T) *message
		bend      func(*message)
		complaint string
	}{
		{"a batch by its media type", structured, func(m *message) {
			m.header.Set("Content-Type", "application/cloudevents-batch+json")
		}, "a batch of events is not supported"},
		{"another event format", structured, func(m *message) {
			m.header.Set("Content-Type", "application/cloudevents+protobuf")
		}, `event format "application/cloudevents+protobuf" is not supported`},
		{"another spec version", structured, func(m *message) { m.attributes["specversion"] = "0.3" }, `specversion is "0.3": want 1.0`},
		{"no spec version", structured, func(m *message) { delete(m.attributes, "specversion") }, `specversion is ""`},
		{"no type", structured, func(m *message) { delete(m.attributes, "type") }, `event type "" is not known`},
		{"a type that is no string", structured, func(m *message) { m.attributes["type"] = 5 }, "type is \"5\", which has the wrong type"},
		{"no time", structured, func(m *message) { delete(m.attributes, "time") }, `time "" is not`},
		{"a local time", structured, func(m *message) { m.attributes["time"] = "2025-06-01 12:00:00" }, "is not a time by RFC 3339"},
		{"the id of another term", structured, func(m *message) { m.attributes["id"] = "u.6.became-leader" }, "but the data make it"},
		{"the source of another election", structured, func(m *message) {
			m.attributes["source"] = "/clusters/default/namespaces/prod/leases/other"
		}, "but the data make it"},
		{"another epoch outside than inside", structured, func(m *message) { m.attributes["epoch"] = 8 }, "epoch is \"8\", but the data make it 7"},
		{"an epoch that is no integer", structured, func(m *message) { m.attributes["epoch"] = 7.5 }, "but the data make it 7"},
		{"text for data", structured, func(m *message) { m.attributes["datacontenttype"] = "text/plain" }, `datacontenttype is "text/plain": want application/json`},
		{"data as a quoted string", structured, func(m *message) {
			b, _ := json.Marshal(m.data)
			m.attributes["data"] = string(b)
		}, "data is not a JSON object"},
		{"data null", structured, func(m *message) { m.attributes["data"] = nil }, "data is not a JSON object"},
		{"no data", structured, func(m *message) { delete(m.attributes, "data") }, "data is not a JSON object"},
		{"data twice", structured, func(m *message) { m.attributes["data_base64"] = "e30=" }, "data and data_base64 are both there"},
		{"data_base64 that is a number", structured, func(m *message) {
			delete(m.attributes, "data")
			m.attributes["data_base64"] = 1
		}, "data_base64 is \"1\""},
		{"data_base64 that is none", structured, func(m *message) {
			delete(m.attributes, "data")
			m.attributes["data_base64"] = "{}"
		}, "data_base64: illegal base64"},
		{"epoch missing in data", structured, func(m *message) { delete(m.data, "epoch") }, "data: epoch is missing"},
		{"epoch zero", structured, func(m *message) { m.data["epoch"] = 0 }, "epoch 0 is out of range"},
		{"epoch too large", structured, func(m *message) { m.data["epoch"] = 1 << 31 }, "epoch 2147483648 is out of range"},
		{"epoch negative", structured, func(m *message) { m.data["epoch"] = -1 }, "wrong type or range"},
		{"a number without end", structured, func(m *message) { m.data["missed"] = json.Number(strings.Repeat("9", 10_000)) }, "wrong type or range"},
		{"revision as a number", structured, func(m *message) { m.data["revision"] = 5 }, "data: revision is \"5\", which has the wrong type"},
		{"revision that is none", structured, func(m *message) { m.data["revision"] = "five" }, `revision "five" is not a decimal number`},
		{"an illegal cluster", structured, func(m *message) { m.data["cluster"] = "a.*" }, `cluster "a.*" is not a legal name`},
		{"no leader for a start", structured, func(m *message) { m.data["leader"] = "" }, "leader is missing"},
		{"no reporter", structured, func(m *message) { m.data["reporter"] = "" }, "reporter is missing"},
		{"a long identity", structured, func(m *message) { m.data["leader"] = strings.Repeat("x", events.MaxIdentity+1) }, "leader of 4097 bytes is too long"},
		{"a reason that is no word", structured, func(m *message) { m.data["reason"] = "Because of\nthis" }, "reason"},
		{"a perspective that is no word", structured, func(m *message) { m.data["perspective"] = "" }, "perspective"},
		{"a bad acquire time", structured, func(m *message) { m.data["acquireTime"] = "yesterday" }, "acquireTime"},
		{"a negative duration", structured, func(m *message) { m.data["leaseDurationSeconds"] = -1 }, "leaseDurationSeconds -1 is negative"},
		{"too large", structured, func(m *message) { m.data["note"] = strings.Repeat("x", events.MaxMessage) }, "is too large"},
		{"headers too large", binary, func(m *message) { m.header.Set("ce-note", strings.Repeat("x", events.MaxMessage)) }, "is too large"},
		{"binary, overlong UTF-8", binary, func(m *message) { m.header.Set("ce-id", "%C0%A0") }, "header ce-id is not UTF-8"},
		{"binary, raw bytes", binary, func(m *message) { m.header.Set("ce-source", "\xff") }, "header ce-source is not UTF-8"},
		{"binary without an id", binary, func(m *message) { m.header.Del("ce-id") }, `id is "", but the data make it`},
		{"binary data in structured clothes", binary, func(m *message) { m.header = nil }, `specversion is ""`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := tc.make(t)
			tc.bend(m)
			_, err := events.Decode(m.header, m.body(t))
			wantComplaint(t, err, tc.complaint)
		})
	}
}

func TestDecodeRefusesOtherBytes(t *testing.T) {
	for body, complaint := range map[string]string{
		"":                     "neither a JSON object nor",
		"null":                 "neither a JSON object nor",
		"5":                    "neither a JSON object nor",
		"{":                    "neither a JSON object nor",
		"{} trailing":          "neither a JSON object nor",
		"hello":                "neither a JSON object nor",
		" [{}]":                "a batch of events is not supported",
		"{\"id\":\"\xff\"}":    "data is not UTF-8",
		strings.Repeat("[", 9): "a batch of events is not supported",
		`{"a":` + strings.Repeat("[", 100_000) + "}": "neither a JSON object nor",
	} {
		t.Run(body[:min(len(body), 20)], func(t *testing.T) {
			_, err := events.Decode(nil, []byte(body))
			wantComplaint(t, err, complaint)
		})
	}
}

// A consumer can tell an event that is not for it from a broken one, and skip
// it, whatever its data look like.
func TestDecodeUnknownType(t *testing.T) {
	for _, eventType := range []string{
		"io.leaderbridge.became-leader.v2", "io.leaderbridge.paused.v1", "com.example.order", "became-leader",
	} {
		m := structured(t)
		m.attributes["type"] = eventType
		m.attributes["data"] = "something else"
		_, err := events.Decode(m.header, m.body(t))
		var unknown *events.UnknownTypeError
		if !errors.As(err, &unknown) || unknown.Type != eventType {
			t.Errorf("%s: got %v", eventType, err)
		}
	}
}

// A later version may know more reasons and perspectives: readers accept them,
// writers do not invent them.
func TestUnknownWords(t *testing.T) {
	m := structured(t)
	m.data["reason"], m.data["perspective"] = "elected-by-lot", "auditor"
	e, err := events.Decode(m.header, m.body(t))
	if err != nil {
		t.Fatal(err)
	}
	if e.Reason != "elected-by-lot" || e.Perspective != "auditor" {
		t.Errorf("got %s, %s", e.Reason, e.Perspective)
	}
	_, _, err = events.Encode(e, events.Structured)
	wantComplaint(t, err, `reason "elected-by-lot" is not known`)
}

// The header tells of the current hop, the extension of the origin
// (cloudevents/spec#603). A header that is missing, renamed by a server before
// 2.14 (nats-io/nats-server#7755) or malformed leaves the extension.
func TestDecodeTraceContext(t *testing.T) {
	const (
		origin = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		hop    = "00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-01"
	)
	for _, mode := range []events.ContentMode{events.Structured, events.Binary} {
		for _, tc := range []struct {
			name          string
			bend          func(nats.Header)
			parent, state string
		}{
			{"both equal", func(nats.Header) {}, origin, "vendor=value"},
			{"relayed", func(h nats.Header) { h.Set("traceparent", hop); h.Set("tracestate", "hop=1") }, hop, "hop=1"},
			{"relayed without state", func(h nats.Header) { h.Set("traceparent", hop); h.Del("tracestate") }, hop, ""},
			{"another case", func(h nats.Header) { h["Traceparent"] = []string{hop}; h.Del("traceparent"); h.Del("tracestate") }, hop, ""},
			{"lower case first", func(h nats.Header) { h["TRACEPARENT"] = []string{origin}; h.Set("traceparent", hop) }, hop, "vendor=value"},
			{"renamed", func(h nats.Header) { rename(h, "traceparent", "Xraceparent") }, origin, "vendor=value"},
			{"gone", func(h nats.Header) { h.Del("traceparent"); h.Del("tracestate") }, origin, "vendor=value"},
			{"malformed", func(h nats.Header) { h.Set("traceparent", "00-zz") }, origin, "vendor=value"},
			{"all zero", func(h nats.Header) {
				h.Set("traceparent", "00-00000000000000000000000000000000-0000000000000000-00")
			}, origin, "vendor=value"},
			{"malformed state", func(h nats.Header) { h.Set("traceparent", hop); h.Set("tracestate", "=,=") }, hop, ""},
		} {
			t.Run(string(mode)+"/"+tc.name, func(t *testing.T) {
				header, data, err := events.Encode(example(), mode)
				if err != nil {
					t.Fatal(err)
				}
				tc.bend(header)
				e, err := events.Decode(header, data)
				if err != nil {
					t.Fatal(err)
				}
				if e.TraceParent != tc.parent || e.TraceState != tc.state {
					t.Errorf("got %q, %q, want %q, %q", e.TraceParent, e.TraceState, tc.parent, tc.state)
				}
			})
		}
	}
}

// A trace extension of the wrong type does not cost the event.
func TestDecodeBrokenTraceExtension(t *testing.T) {
	m := structured(t)
	m.header.Del("traceparent")
	m.attributes["traceparent"] = 5
	e, err := events.Decode(m.header, m.body(t))
	if err != nil || e.TraceParent != "" {
		t.Errorf("got %q, %v", e.TraceParent, err)
	}
}

// Whatever the bytes, Decode returns; and what it accepts, it would write
// itself and read again the same. Run it with -fuzzminimizetime=10x: making
// its long inputs shorter takes the fuzzer most of its time otherwise.
func FuzzDecode(f *testing.F) {
	for _, e := range goldenEvents() {
		for _, mode := range []events.ContentMode{events.Structured, events.Binary} {
			header, data, err := events.Encode(e, mode)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(headerText(header), data)
		}
	}
	f.Add("", []byte(`{"data_base64":1,"specversion":"1.0"}`))
	f.Add("", []byte(`[{"specversion":"1.0"}]`))
	f.Add("Content-Type: application/cloudevents-batch+json\n", []byte(`[]`))
	f.Add("ce-specversion: 1.0\nce-type: io.leaderbridge.new-leader.v1\nce-id: %zz\"\n", []byte(`{"epoch":1}`))
	f.Fuzz(func(t *testing.T, headers string, data []byte) {
		e, err := events.Decode(parseHeader(headers), data)
		if err != nil {
			if e != (events.Event{}) {
				t.Errorf("an event beside the error %v", err)
			}
			wantOneLine(t, err)
			return
		}
		if e.Validate() != nil {
			return // a word of a later version
		}
		for _, mode := range []events.ContentMode{events.Structured, events.Binary} {
			header, data, err := events.Encode(e, mode)
			if err != nil {
				t.Fatal(err)
			}
			again, err := events.Decode(header, data)
			if err != nil {
				t.Fatal(err)
			}
			if asJSON(t, again) != asJSON(t, e) {
				t.Errorf("%s: %s came back as %s", mode, asJSON(t, e), asJSON(t, again))
			}
		}
	})
}

// headerText and parseHeader turn headers into text that a fuzzer can bend.
func headerText(h nats.Header) string {
	var b strings.Builder
	for _, name := range sortedNames(h) {
		b.WriteString(name + ": " + h[name][0] + "\n")
	}
	return b.String()
}

func parseHeader(s string) nats.Header {
	h := nats.Header{}
	lines := bufio.NewScanner(strings.NewReader(s))
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ": "); ok {
			h[name] = append(h[name], value)
		}
	}
	return h
}
