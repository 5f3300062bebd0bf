package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/examples/tenants/desired"
	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// buildExample builds a program of the examples.
func buildExample(t *testing.T, name string, flags []string, env ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", path, "../../examples/"+name)...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return path
}

// controller is a running example.
type controller struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	says bytes.Buffer
}

func (c *controller) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.says.Write(b)
}

func (c *controller) works() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Contains(c.says.String(), "starting the work")
}

func (c *controller) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// tenants is the world of the example.
type tenants struct {
	*workshop
	js jetstream.JetStream
	kv jetstream.KeyValue
}

func (w *tenants) controller(path string) *controller {
	w.t.Helper()
	c := &controller{cmd: exec.Command(path, "--nats-url", w.nats.URL(), "--election", "prod/scheduler")}
	c.cmd.Stderr = c
	if err := c.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		c.kill()
		if w.t.Failed() {
			w.t.Logf("a controller wrote:\n%s", c.says.String())
		}
	})
	return c
}

func (w *tenants) put(name, value string) {
	w.t.Helper()
	if _, err := w.kv.PutString(w.t.Context(), name, value); err != nil {
		w.t.Fatal(err)
	}
}

// await waits until the stream has these consumers and no other, of that epoch.
func (w *tenants) await(epoch string, want ...desired.Consumer) {
	w.t.Helper()
	testenv.Eventually(w.t, 40*time.Second, func() error {
		stream, err := w.js.Stream(w.t.Context(), "ORDERS")
		if err != nil {
			return err
		}
		var have []desired.Consumer
		list := stream.ListConsumers(w.t.Context())
		for info := range list.Info() {
			if got := info.Config.Metadata["epoch"]; got != epoch {
				err = errors.Join(err, fmt.Errorf("%s is of epoch %q, want %s", info.Name, got, epoch))
			}
			have = append(have, desired.Consumer{Name: info.Name, Filter: info.Config.FilterSubject, MaxAckPending: info.Config.MaxAckPending})
		}
		slices.SortFunc(have, func(a, b desired.Consumer) int { return strings.Compare(a.Name, b.Name) })
		if !slices.Equal(have, want) {
			err = errors.Join(err, fmt.Errorf("consumers %v, want %v", have, want))
		}
		return errors.Join(err, list.Err())
	})
}

// The example controllers: one keeps consumers in step with the tenants, through
// the death of a controller and a hand-over; the other, a pure function in
// WebAssembly, says the same.
func TestTenants(t *testing.T) {
	w := &tenants{workshop: newWorkshop(t)}
	w.js = w.nats.JetStream(t)
	if _, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.kv, err = w.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "tenants"}); err != nil {
		t.Fatal(err)
	}
	path := buildExample(t, "tenants", []string{"-race"})
	w.candidate("a")
	w.put("acme", "{}")
	w.put("umbrella", `{"maxAckPending":5}`)
	both := []*controller{w.controller(path), w.controller(path)}
	acme := desired.Consumer{Name: "tenant-acme", Filter: "orders.acme.>", MaxAckPending: 100}
	umbrella := desired.Consumer{Name: "tenant-umbrella", Filter: "orders.umbrella.>", MaxAckPending: 5}
	w.await("1", acme, umbrella)

	// Real ones.
	for _, subject := range []string{"orders.acme.1", "orders.umbrella.1", "orders.acme.2"} {
		if _, err := w.js.Publish(t.Context(), subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	consumer, err := w.js.Consumer(t.Context(), "ORDERS", "tenant-acme")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := consumer.Info(t.Context()); err != nil || info.NumPending != 2 {
		t.Errorf("orders for acme: %+v, %v", info, err)
	}

	// The one that works is killed.
	first := both[0]
	if both[1].works() {
		first = both[1]
	}
	first.kill()
	w.put("acme", `{"maxAckPending":7}`)
	if err := w.kv.Delete(t.Context(), "umbrella"); err != nil {
		t.Fatal(err)
	}
	w.put("zenith", "{}")
	acme.MaxAckPending = 7
	zenith := desired.Consumer{Name: "tenant-zenith", Filter: "orders.zenith.>", MaxAckPending: 100}
	w.await("1", acme, zenith)

	b := w.candidate("b")
	waitFor(t, b, "a")
	w.stepDown("b")
	w.await("2", acme, zenith)

	w.plansTheSame(acme, zenith)
}

// plansTheSame runs the WebAssembly controller.
func (w *tenants) plansTheSame(want ...desired.Consumer) {
	t := w.t
	t.Helper()
	stream, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "DESIRED", Subjects: []string{"tenants.desired"}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tenants.json"), []byte(`{"zenith":{},"acme":{"maxAckPending":7}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	module := buildExample(t, "wasm-tenants", nil, "GOOS=wasip1", "GOARCH=wasm")
	w.worker("planner", "--role", "tenants-plan", "--on", "event", "--publish", "tenants.desired", "--wasm", module,
		"--mount", dir+":/tenants", "--event-timeout", "60s")
	// The race detector makes the compiler of modules very slow.
	testenv.Eventually(t, 4*time.Minute, func() error {
		msg, err := stream.GetLastMsgForSubject(t.Context(), "tenants.desired")
		if err != nil {
			return err
		}
		var e struct {
			ID    string
			Epoch int
			Data  struct{ Consumers []desired.Consumer }
		}
		if err := json.Unmarshal(msg.Data, &e); err != nil {
			return err
		}
		if e.Epoch != 2 || !strings.HasSuffix(e.ID, ".2.new-leader.desired") || !slices.Equal(e.Data.Consumers, want) {
			return fmt.Errorf("said %s, want %v", msg.Data, want)
		}
		return nil
	})
}
