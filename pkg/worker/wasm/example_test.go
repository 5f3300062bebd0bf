package wasm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// The examples are built and run as their comments say; this one as a worker
// does it, compiled, and kept in the cache.
func TestTheHeartbeatExample(t *testing.T) {
	dir := t.TempDir()
	binary, err := build(filepath.Join(dir, "heartbeat.wasm"), "../../../examples/wasm-heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	var out syncBuffer
	cache := filepath.Join(dir, "cache")
	for _, when := range []string{"compiled", "from the cache"} {
		began := time.Now()
		m := newModule(t, binary, Options{Stdout: &out, CacheDir: cache})
		t.Logf("%s after %v", when, time.Since(began))
		g := newGrant(t, time.Minute, 0)
		done := make(chan error, 1)
		go func() { done <- g.Run(m.Handle, nil) }()
		testenv.Eventually(t, 30*time.Second, func() error {
			if text := out.String(); strings.Count(text, "\n") < 2 {
				return fmt.Errorf("no two beats, but %q", text)
			}
			return nil
		})
		g.Drain(errors.New("the leader steps down"))
		if err := <-done; err == nil || !strings.Contains(err.Error(), "the leader steps down") {
			t.Errorf("run = %v", err)
		}
		if want := "worker-1 in epoch 7: beat 1\nworker-1 in epoch 7: beat 2\n"; !strings.HasPrefix(out.String(), want) {
			t.Errorf("output %q, want %q", out.String(), want)
		}
		out.reset()
	}
	if files, err := filepath.Glob(filepath.Join(cache, "*", "*")); err != nil || len(files) == 0 {
		t.Errorf("the cache holds %v, %v", files, err)
	}
}

func TestTheAnnounceExample(t *testing.T) {
	binary, err := build(filepath.Join(t.TempDir(), "announce.wasm"), "../../../examples/wasm-announce")
	if err != nil {
		t.Fatal(err)
	}
	m := newModule(t, binary, Options{interpret: true})
	g := newGrant(t, time.Minute, 0)
	for kind, want := range map[string]string{
		"new-leader": "",
		"became-leader": `{"specversion":"1.0","id":"u.7.became-leader.announced","source":"/examples/wasm-announce",` +
			`"type":"com.example.announced.v1","datacontenttype":"application/json","data":{"text":"pod-b leads prod/scheduler, epoch 7"}}`,
	} {
		in := `{"specversion":"1.0","id":"u.7.` + kind + `","source":"/clusters/default/namespaces/prod/leases/scheduler",` +
			`"type":"io.leaderbridge.` + kind + `.v1","epoch":7,"data":{"cluster":"default","namespace":"prod",` +
			`"lease":"scheduler","epoch":7,"leader":"pod-b","reason":"acquired"}}`
		got := ""
		err := m.HandleEvent(t.Context(), g.Term(), []byte(in), func(_ context.Context, e []byte) error {
			got += string(e)
			return nil
		})
		if err != nil || got != want {
			t.Errorf("%s: %v, published\n%s\nwant\n%s", kind, err, got, want)
		}
	}
}
