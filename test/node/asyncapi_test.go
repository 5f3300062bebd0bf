package node

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/leaderbridge/leaderbridge/test/testenv/nodeenv"
)

// docs/asyncapi.yaml is an AsyncAPI document by the schema that the AsyncAPI
// project publishes as an npm package.
func TestAsyncAPIDocument(t *testing.T) {
	official, err := os.ReadFile(filepath.Join(nodeenv.Packages(t, "."), "@asyncapi", "specs", "schemas", "3.0.0.json"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "asyncapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err = yaml.YAMLToJSONStrict(text)
	if err != nil {
		t.Fatal(err)
	}
	load := func(b []byte) any {
		t.Helper()
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	const name = "file:///3.0.0.json"
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, load(official)); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	document := load(text)
	if err := schema.Validate(document); err != nil {
		t.Errorf("docs/asyncapi.yaml: %v", err)
	}
	delete(document.(map[string]any), "info")
	if schema.Validate(document) == nil {
		t.Error("a document without its title is valid too: the schema was not applied")
	}
}
