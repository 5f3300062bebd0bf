package events_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

var schemaFile = filepath.Join("..", "..", "docs", "schema", "transition.v1.json")

// compileSchema compiles the published file under the URI that the events name.
func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if object, ok := doc.(map[string]any); !ok || object["$id"] != events.DataSchema {
		t.Errorf("the schema does not call itself %s, as the events do", events.DataSchema)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(events.DataSchema, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(events.DataSchema)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validateData(schema *jsonschema.Schema, data []byte) error {
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return schema.Validate(instance)
}

// Every event that can be encoded has data that the schema accepts.
func TestSchemaAcceptsWhatIsWritten(t *testing.T) {
	schema := compileSchema(t)
	rapid.Check(t, func(t *rapid.T) {
		_, data, err := events.Encode(genEvent().Draw(t, "event"), events.Binary)
		if err != nil {
			t.Fatal(err)
		}
		if err := validateData(schema, data); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
	})
}

// The schema and the code know the same members, and demand the same.
func TestSchemaKnowsEveryMember(t *testing.T) {
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]any
		Required   []string
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	members := func(e events.Event) []string {
		_, data, err := events.Encode(e, events.Binary)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Keys(parseObject(t, data)))
	}
	full := example()
	if got, want := slices.Sorted(maps.Keys(schema.Properties)), members(full); !slices.Equal(got, want) {
		t.Errorf("the schema has the members %v, the code writes %v", got, want)
	}
	least := events.Event{
		Election: full.Election, Transition: full.Transition, UID: full.UID, Epoch: full.Epoch, Time: full.Time,
		Leader: full.Leader, Reason: full.Reason, Reporter: full.Reporter, Perspective: full.Perspective,
	}
	slices.Sort(schema.Required)
	if want := members(least); !slices.Equal(schema.Required, want) {
		t.Errorf("the schema requires %v, the code always writes %v", schema.Required, want)
	}
}

func TestSchemaRejects(t *testing.T) {
	schema := compileSchema(t)
	start, stop := goldenEvents()["became-leader"], goldenEvents()["stopped-leading"]
	for _, tc := range []struct {
		name string
		e    events.Event
		bend func(map[string]any)
	}{
		{"no cluster", start, func(o map[string]any) { delete(o, "cluster") }},
		{"no namespace", start, func(o map[string]any) { delete(o, "namespace") }},
		{"no lease", start, func(o map[string]any) { delete(o, "lease") }},
		{"no uid", start, func(o map[string]any) { delete(o, "uid") }},
		{"no epoch", start, func(o map[string]any) { delete(o, "epoch") }},
		{"no leader", start, func(o map[string]any) { delete(o, "leader") }},
		{"no reason", start, func(o map[string]any) { delete(o, "reason") }},
		{"no missed", start, func(o map[string]any) { delete(o, "missed") }},
		{"no reporter", start, func(o map[string]any) { delete(o, "reporter") }},
		{"no perspective", start, func(o map[string]any) { delete(o, "perspective") }},
		{"illegal cluster", start, func(o map[string]any) { o["cluster"] = "Prod" }},
		{"dotted namespace", start, func(o map[string]any) { o["namespace"] = "a.b" }},
		{"encoded lease", start, func(o map[string]any) { o["lease"] = "kube_scheduler" }},
		{"long lease", start, func(o map[string]any) { o["lease"] = strings.Repeat("a", 254) }},
		{"uid with a space", start, func(o map[string]any) { o["uid"] = "a b" }},
		{"epoch zero", start, func(o map[string]any) { o["epoch"] = 0 }},
		{"epoch text", start, func(o map[string]any) { o["epoch"] = "7" }},
		{"epoch beyond 32 bits", start, func(o map[string]any) { o["epoch"] = 1 << 31 }},
		{"start without leader", start, func(o map[string]any) { o["leader"] = "" }},
		{"leader null", start, func(o map[string]any) { o["leader"] = nil }},
		{"long leader", start, func(o map[string]any) { o["leader"] = strings.Repeat("x", events.MaxIdentity+1) }},
		{"previous leader empty", start, func(o map[string]any) { o["previousLeader"] = "" }},
		{"stop with a leader", stop, func(o map[string]any) { o["leader"] = "x" }},
		{"stop of nobody", stop, func(o map[string]any) { delete(o, "previousLeader") }},
		{"unknown reason", start, func(o map[string]any) { o["reason"] = "because" }},
		{"missed negative", start, func(o map[string]any) { o["missed"] = -1 }},
		{"transitions negative", start, func(o map[string]any) { o["leaseTransitions"] = -1 }},
		{"duration null", start, func(o map[string]any) { o["leaseDurationSeconds"] = nil }},
		{"duration with a unit", start, func(o map[string]any) { o["leaseDurationSeconds"] = "15s" }},
		{"time without zone", start, func(o map[string]any) { o["acquireTime"] = "2025-06-01T12:00:00" }},
		{"time with an offset", start, func(o map[string]any) { o["renewTime"] = "2025-06-01T12:00:00+02:00" }},
		{"leaderless negative", start, func(o map[string]any) { o["leaderlessMillis"] = -1 }},
		{"reporter empty", start, func(o map[string]any) { o["reporter"] = "" }},
		{"unknown perspective", start, func(o map[string]any) { o["perspective"] = "god" }},
		{"revision number", start, func(o map[string]any) { o["revision"] = 5 }},
		{"revision zero", start, func(o map[string]any) { o["revision"] = "0" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, data, err := events.Encode(tc.e, events.Binary)
			if err != nil {
				t.Fatal(err)
			}
			if err := validateData(schema, data); err != nil {
				t.Fatalf("rejected before it was bent: %v", err)
			}
			o := parseObject(t, data)
			tc.bend(o)
			bent, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := validateData(schema, bent); err == nil {
				t.Errorf("accepted %s", bent)
			}
		})
	}
}
