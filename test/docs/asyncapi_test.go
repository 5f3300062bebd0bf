package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// ref is a reference within the document, or to a file beside it.
type ref struct {
	Ref string `json:"$ref"`
}

// name is the last part of what a reference leads to.
func (r ref) name() string { return r.Ref[strings.LastIndex(r.Ref, "/")+1:] }

// asyncAPI is the part of the document that is compared with the code.
type asyncAPI struct {
	Channels map[string]struct {
		Address  *string
		Messages map[string]ref
	}
	Operations map[string]struct {
		Action  string
		Channel ref
		Reply   *struct{ Messages []ref }
	}
	Components struct {
		Messages map[string]struct {
			Name        string
			ContentType string
			Headers     ref
			Payload     struct {
				ref
				SchemaFormat string
				Schema       ref
			}
		}
		Schemas map[string]struct {
			Required   []string
			Properties map[string]struct{ Enum []string }
		}
	}
}

func loadAsyncAPI(t *testing.T) (document asyncAPI, text []byte) {
	t.Helper()
	text, err := yaml.YAMLToJSONStrict([]byte(read(t, "docs/asyncapi.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	return document, text
}

// transitions are the kinds of events, under the names of their channels.
var transitions = map[string]events.Transition{
	"becameLeader": events.BecameLeader, "stoppedLeading": events.StoppedLeading, "newLeader": events.NewLeader,
}

// The channels are the subjects of the code: of each kind of event and of each
// verb, and no others.
func TestAsyncAPIHasTheSubjects(t *testing.T) {
	document, _ := loadAsyncAPI(t)
	pattern := events.Election{Cluster: "{cluster}", Namespace: "{namespace}", Lease: "{lease}"}
	var want []string
	for _, kind := range transitions {
		want = append(want, pattern.Subject(events.DefaultPrefix, kind))
	}
	for _, verb := range verbs(t) {
		want = append(want, pattern.RequestSubject(events.DefaultPrefix, verb))
	}
	want = append(want, pattern.RequestSubject(events.DefaultPrefix, events.FreeVerb)+".{role}")
	var have []string
	for _, c := range document.Channels {
		if c.Address != nil { // null is the requester's inbox
			have = append(have, *c.Address)
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("the document has the channels\n%s\nthe code\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	for key, kind := range transitions {
		if address := document.Channels[key].Address; address == nil || *address != pattern.Subject(events.DefaultPrefix, kind) {
			t.Errorf("the channel %s is not that of %s", key, kind)
		}
	}
}

// verbs returns the verbs of requests that package events names.
func verbs(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "pkg", "events", "requests.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && strings.HasSuffix(spec.Names[0].Name, "Verb") {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, text)
		}
		return true
	})
	if len(found) < 5 {
		t.Fatalf("only the verbs %v were found", found)
	}
	return found
}

// Every channel has an operation: leaderbridge sends events and notices, and
// answers requests.
func TestAsyncAPIHasTheOperations(t *testing.T) {
	document, _ := loadAsyncAPI(t)
	answered := map[string]bool{"stepDown": true, "grant": true, "return": true}
	left := maps.Clone(document.Channels)
	delete(left, "replies")
	for name, o := range document.Operations {
		channel := o.Channel.name()
		if _, ok := left[channel]; !ok {
			t.Errorf("the operation %s has the channel %s, which there is not, or has an operation already", name, channel)
		}
		delete(left, channel)
		if want := map[bool]string{true: "receive", false: "send"}[answered[channel]]; o.Action != want {
			t.Errorf("the operation %s is to %s, want %s", name, o.Action, want)
		}
		if answered[channel] != (o.Reply != nil) {
			t.Errorf("the operation %s: a reply is described: %t", name, o.Reply != nil)
		}
	}
	for channel := range left {
		t.Errorf("the channel %s has no operation", channel)
	}
}

// Each kind of event has its type and the published schema in both modes.
func TestAsyncAPIHasTheEvents(t *testing.T) {
	document, _ := loadAsyncAPI(t)
	for key, kind := range transitions {
		eventType := events.Event{Transition: kind}.Type()
		for mode, contentType := range map[string]string{"structured": "application/cloudevents+json", "binary": "application/json"} {
			name := document.Channels[key].Messages[mode].name()
			m := document.Components.Messages[name]
			if m.Name != eventType || m.ContentType != contentType {
				t.Errorf("the %s message of %s is of type %q and %q, want %q and %q", mode, kind, m.Name, m.ContentType, eventType, contentType)
			}
			if mode == "binary" && m.Payload.Schema.Ref != "./schema/transition.v1.json" {
				t.Errorf("the payload of %s is not described by the published schema but by %q", name, m.Payload.Schema.Ref)
			}
		}
	}
}

// The bodies of requests and answers have the members of the code.
func TestAsyncAPIHasTheRequests(t *testing.T) {
	document, _ := loadAsyncAPI(t)
	for name, body := range map[string]any{
		"stepDownRequest": events.StepDownRequest{}, "stepDownAnswer": events.StepDownAnswer{},
		"grantRequest": events.GrantRequest{}, "grantAnswer": events.GrantAnswer{}, "refusal": events.Refusal{},
		"drainNotice": events.DrainNotice{}, "freeNotice": events.FreeNotice{},
	} {
		schema := document.Components.Schemas[name]
		var members, required []string
		for field := range reflect.TypeOf(body).Fields() {
			member, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			members = append(members, member)
			if options != "omitempty" {
				required = append(required, member)
			}
		}
		slices.Sort(members)
		slices.Sort(required)
		slices.Sort(schema.Required)
		if have := slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(have, members) {
			t.Errorf("%s has the members %v, the code writes %v", name, have, members)
		}
		if !slices.Equal(schema.Required, required) {
			t.Errorf("%s requires %v, the code always writes %v", name, schema.Required, required)
		}
		if m := document.Components.Messages[name]; m.Payload.name() != name {
			t.Errorf("the message %s has the payload %s", name, m.Payload.Ref)
		}
	}
	reasons := []string{
		string(events.RefusedHeld), string(events.RefusedDraining), string(events.RefusedNotYet),
		string(events.RefusedStale), string(events.RefusedInvalid), string(events.RefusedFull),
	}
	if have := document.Components.Schemas["refusal"].Properties["reason"].Enum; !slices.Equal(have, reasons) {
		t.Errorf("the reasons of a refusal are %v, the code has %v", have, reasons)
	}
}

// golden is a message of pkg/events/testdata/golden.
type golden struct {
	name    string
	headers map[string]any
	data    []byte
}

func goldens(t *testing.T) []golden {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "pkg", "events", "testdata", "golden", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden messages: %v", err)
	}
	var all []golden
	for _, f := range files {
		rel, err := filepath.Rel(root, f)
		if err != nil {
			t.Fatal(err)
		}
		head, data, ok := strings.Cut(read(t, rel), "\n\n")
		if !ok {
			t.Fatalf("%s has no headers", rel)
		}
		g := golden{name: filepath.Base(f), headers: map[string]any{}, data: []byte(data)}
		for line := range strings.Lines(head) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			g.headers[name] = value
		}
		all = append(all, g)
	}
	return all
}

// compiler knows the document and the published schema, as files in one folder.
func compiler(t *testing.T, document []byte) *jsonschema.Compiler {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.DefaultDraft(jsonschema.Draft2020)
	for name, text := range map[string][]byte{
		"file:///docs/asyncapi.json": document, "file:///docs/schema/transition.v1.json": []byte(read(t, "docs/schema/transition.v1.json")),
	} {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(name, value); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// The messages that the code writes are as the document says: headers and
// payload. One of another kind is not.
func TestAsyncAPIDescribesTheGoldenEvents(t *testing.T) {
	_, text := loadAsyncAPI(t)
	compile := func(pointer string) *jsonschema.Schema {
		t.Helper()
		// A compiler for each, since a compiled resource takes no more.
		schema, err := compiler(t, text).Compile("file:///docs/asyncapi.json#/components/messages/" + pointer)
		if err != nil {
			t.Fatal(err)
		}
		return schema
	}
	headersSeen := map[string]bool{}
	for _, g := range goldens(t) {
		header := map[string][]string{}
		for name, value := range g.headers {
			header[name] = []string{fmt.Sprint(value)}
		}
		e, err := events.Decode(header, g.data)
		if err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
		mode := "Structured"
		if strings.Contains(g.name, ".binary.") {
			mode = "Binary"
		}
		payload, err := jsonschema.UnmarshalJSON(bytes.NewReader(g.data))
		if err != nil {
			t.Fatal(err)
		}
		for key, kind := range transitions {
			headersFit := compile(key + mode + "/headers").Validate(g.headers)
			payloadFits := compile(key + mode + "/payload/schema").Validate(payload)
			switch {
			case kind == e.Transition && headersFit != nil:
				t.Errorf("%s: headers: %v", g.name, headersFit)
			case kind == e.Transition && payloadFits != nil:
				t.Errorf("%s: payload: %v", g.name, payloadFits)
			case kind != e.Transition && headersFit == nil && payloadFits == nil:
				t.Errorf("%s also passes for a %s", g.name, kind)
			}
		}
		for name := range g.headers {
			headersSeen[mode+" "+name] = true
		}
	}
	document, _ := loadAsyncAPI(t)
	for mode, name := range map[string]string{"Structured": "structuredHeaders", "Binary": "binaryHeaders"} {
		for header := range document.Components.Schemas[name].Properties {
			// Nats-Msg-Id is added when the event is appended.
			if header != "Nats-Msg-Id" && !headersSeen[mode+" "+header] {
				t.Errorf("the document has the header %s, which no %s event has", header, strings.ToLower(mode))
			}
			delete(headersSeen, mode+" "+header)
		}
	}
	for name := range headersSeen {
		t.Errorf("the code writes a header that the document does not have: %s", name)
	}
}
