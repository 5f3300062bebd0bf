package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/leaderbridge/leaderbridge/test/testenv/toolenv"
)

// overlays are what deploy/overlays holds.
var overlays = []string{"bridge", "sidecar", "watch-namespace", "watch-cluster", "edge"}

// objects are what a tool has rendered, by kind and name.
type objects []*unstructured.Unstructured

// kustomize renders an overlay as a user does: from an overlay of their own,
// which names the namespace.
func kustomize(t *testing.T, overlay, namespace string) objects {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Rel(dir, shipped("overlays", overlay))
	if err != nil {
		t.Fatal(err)
	}
	mine := fmt.Sprintf("namespace: %s\nresources: [%s]\n", namespace, path)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	return render(t, toolenv.Kustomize.Path(t), "build", dir)
}

func render(t *testing.T, tool string, args ...string) objects {
	t.Helper()
	cmd := exec.Command(tool, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(tool), strings.Join(args, " "), err, stderr.String())
	}
	if stderr.Len() > 0 {
		t.Errorf("%s %s warns: %s", filepath.Base(tool), strings.Join(args, " "), stderr.String())
	}
	return parse(t, out)
}

func parse(t *testing.T, text []byte) objects {
	t.Helper()
	var all objects
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("read what was rendered: %v", err)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}

// of returns the objects of a kind.
func (all objects) of(kind string) objects {
	var some objects
	for _, o := range all {
		if o.GetKind() == kind {
			some = append(some, o)
		}
	}
	return some
}

// the returns the one object of a kind and name, in its own type.
func the[T any](t *testing.T, all objects, kind, name string) *T {
	t.Helper()
	for _, o := range all.of(kind) {
		if o.GetName() == name {
			return as[T](t, o)
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

func as[T any](t *testing.T, o *unstructured.Unstructured) *T {
	t.Helper()
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true); err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return typed
}
