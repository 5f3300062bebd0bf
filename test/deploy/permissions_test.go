package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// as runs a command as one of the users.
func (i *install) as(role, name string, args ...string) *procenv.Process {
	i.t.Helper()
	u := i.users[role]
	// The flags go before what a worker runs.
	args = append([]string{args[0], "--nats-url", i.nats.URL(), "--nats-nkey", u.file(i.t), "--nats-inbox-prefix", u.inbox()}, args[1:]...)
	return procenv.Start(i.t, name, nil, args...)
}

// running is a bridge that leads and a worker that works, under the users of
// cluster.conf.
func running(t *testing.T) (i *install, e events.Election, bridge, worker *procenv.Process) {
	t.Helper()
	namespace := kubeenv.Shared(t).Namespace(t)
	all := kustomize(t, "bridge", namespace)
	i = installRights(t, all, namespace, nil)
	e = events.Election{Cluster: "default", Namespace: namespace, Lease: "leaderbridge"}
	bridge = i.run(podOf(t, all, "leaderbridge"), "a")
	i.await(e, "leader", leads(1))
	worker = i.as("worker", "worker", "worker", "--election", namespace+"/leaderbridge", "--role", "reports", "--", "sh", "-c", "echo at work; exec sleep 1000")
	testenv.Eventually(t, 20*time.Second, func() error {
		if !strings.Contains(worker.Stdout(), "at work") {
			return errors.New("the worker does not work")
		}
		return nil
	})
	return i, e, bridge, worker
}

// Each user does its job with the commands that it is for, and meets no refusal
// of NATS on the way.
func TestUsersDoTheirJobs(t *testing.T) {
	i, e, bridge, worker := running(t)
	announcer := i.as("worker", "announcer", "worker", "--election", e.Namespace+"/leaderbridge", "--role", "announcer", "--on", "event", "--", "sh", "-c", "echo told")
	handled := func(want int) {
		t.Helper()
		testenv.Eventually(t, 30*time.Second, func() error {
			if n := strings.Count(announcer.Stderr(), "line=told"); n != want {
				return fmt.Errorf("%d events were handled, want %d", n, want)
			}
			return nil
		})
	}
	handled(1) // the last one, with which a role begins
	second := i.run(podOf(t, i.all, "leaderbridge"), "b")
	testenv.Eventually(t, 20*time.Second, func() error {
		if !strings.Contains(second.Stderr(), "holder=a") {
			return errors.New("the standby has not seen the leader")
		}
		return nil
	})

	down := i.as("operator", "step-down", "step-down", e.Namespace+"/leaderbridge")
	if code := down.Wait(30 * time.Second); code != 0 || !strings.Contains(down.Stdout(), "b leads") {
		t.Errorf("step-down: exit code %d, %s%s", code, down.Stdout(), down.Stderr())
	}
	i.await(e, "second leader", leads(2))
	testenv.Eventually(t, 30*time.Second, func() error {
		if n := strings.Count(worker.Stdout(), "at work"); n != 2 {
			return fmt.Errorf("the worker began %d times, want once in each term", n)
		}
		return nil
	})

	handled(4) // the end, and the start of two events

	list := i.as("reader", "events", "events", "-o", "json")
	testenv.Eventually(t, 20*time.Second, func() error {
		if n := strings.Count(list.Stdout(), "\n"); n < 5 {
			return fmt.Errorf("the reader has %d events, want 5", n)
		}
		return nil
	})
	leaders := i.as("reader", "leaders", "leaders")
	if code := leaders.Wait(20 * time.Second); code != 0 || !strings.Contains(leaders.Stdout(), "b") {
		t.Errorf("leaders: exit code %d, %s%s", code, leaders.Stdout(), leaders.Stderr())
	}

	operator := i.users["operator"].enter(t, i.nats)
	js, err := jetstream.New(operator)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := js.KeyValue(t.Context(), events.DefaultBucket)
	if err != nil {
		t.Fatalf("nats kv: %v", err)
	}
	if _, err := bucket.Get(t.Context(), e.KVKey()); err != nil {
		t.Errorf("nats kv get: %v", err)
	}
	watch, err := bucket.Watch(t.Context(), e.KVKey())
	if err != nil {
		t.Fatalf("nats kv watch: %v", err)
	}
	select {
	case <-watch.Updates():
	case <-time.After(10 * time.Second):
		t.Error("nats kv watch sees nothing")
	}
	if err := watch.Stop(); err != nil {
		t.Errorf("end nats kv watch: %v", err)
	}
	if _, err := operator.Request("$SRV.INFO.leaderbridge", nil, 5*time.Second); err != nil {
		t.Errorf("nats micro info: %v", err)
	}

	for _, p := range []*procenv.Process{bridge, second, worker, announcer, down, list, leaders} {
		for _, line := range refusals(p) {
			t.Errorf("%s misses a permission: %s", p.Name(), line)
		}
	}
}

// What a user must not do, NATS refuses: an allowed subject would be missing
// from the list of refusals.
func TestUsersDoNothingElse(t *testing.T) {
	i, e, _, _ := running(t)
	event := e.Subject(events.DefaultPrefix, events.BecameLeader)
	api := func(verb string) string { return e.RequestSubject(events.DefaultPrefix, verb) }
	// What nobody may do who is not the administrator.
	damage := []string{
		"$JS.API.STREAM.DELETE.LEADERBRIDGE", "$JS.API.STREAM.PURGE.LEADERBRIDGE", "$JS.API.STREAM.UPDATE.LEADERBRIDGE",
		"$JS.API.STREAM.MSG.DELETE.LEADERBRIDGE", "$JS.API.STREAM.RESTORE.LEADERBRIDGE", "$JS.API.STREAM.CREATE.OTHER",
		"$JS.API.STREAM.PURGE.KV_leaderbridge_leaders", "$JS.API.STREAM.UPDATE.KV_leaderbridge_leaders", "$JS.API.STREAM.SNAPSHOT.LEADERBRIDGE",
		"$JS.API.CONSUMER.DELETE.LEADERBRIDGE.other", "$JS.API.CONSUMER.LEADER.STEPDOWN.LEADERBRIDGE.other", "$JS.API.STREAM.LEADER.STEPDOWN.LEADERBRIDGE",
		"$KV.leaderbridge_leaders." + e.KVKey(), "$KV.leaderbridge_locks.default.x", "anything.else",
	}
	forgery := []string{event, api(events.DrainVerb), api(events.FreeVerb)}
	others := []string{"_INBOX.x.1", "_INBOX_bridge.x.1", "_INBOX_worker.x.1", "_INBOX_reader.x.1", "_INBOX_operator.x.1", "_INBOX_watcher.x.1"}
	for role, tt := range map[string]struct{ publish, subscribe []string }{
		"bridge": {
			[]string{api(events.StepDownVerb), api(events.GrantVerb), "$SRV.PING"},
			[]string{api(events.DrainVerb)},
		},
		"watcher": {
			[]string{api(events.StepDownVerb), api(events.GrantVerb), api(events.DrainVerb), api(events.FreeVerb), "$SRV.PING"},
			[]string{api(events.StepDownVerb), api(events.GrantVerb), api(events.DrainVerb), "$SRV.PING"},
		},
		"worker": {
			append([]string{api(events.StepDownVerb), "$SRV.PING", "$JS.API.STREAM.DELETE.KV_leaderbridge_leaders", "$JS.API.STREAM.CREATE.LEADERBRIDGE"}, forgery...),
			[]string{api(events.StepDownVerb), api(events.GrantVerb), api(events.ReturnVerb), "$SRV.PING", "$SRV.PING.leaderbridge"},
		},
		"reader": {
			append([]string{api(events.StepDownVerb), api(events.GrantVerb), api(events.ReturnVerb), "$SRV.PING", "$JS.API.STREAM.DELETE.KV_leaderbridge_leaders"}, forgery...),
			[]string{api(events.StepDownVerb), api(events.GrantVerb), api(events.ReturnVerb), api(events.DrainVerb), "$SRV.PING"},
		},
		"operator": {
			append([]string{api(events.GrantVerb), api(events.ReturnVerb), "$JS.API.STREAM.DELETE.KV_leaderbridge_leaders"}, forgery...),
			[]string{api(events.StepDownVerb), api(events.GrantVerb), api(events.ReturnVerb), api(events.DrainVerb), "$SRV.PING"},
		},
	} {
		t.Run(role, func(t *testing.T) {
			nc := i.users[role].enter(t, i.nats)
			for _, subject := range append(append(append([]string{}, tt.publish...), damage...), others...) {
				if !refused(t, nc, func() error { return nc.PublishRequest(subject, i.users[role].inbox()+".none", []byte("{}")) }) {
					t.Errorf("may publish to %s", subject)
				}
			}
			listen := append([]string{">", "leaderbridge.>", "leaderbridge.event.>", "leaderbridge.api.>", "_INBOX.>", "$KV.>", "$JS.>"}, tt.subscribe...)
			for _, other := range others {
				if prefix, _, _ := strings.Cut(other, "."); prefix != i.users[role].inbox() {
					listen = append(listen, prefix+".>")
				}
			}
			for _, subject := range listen {
				if !refused(t, nc, func() error { _, err := nc.SubscribeSync(subject); return err }) {
					t.Errorf("may subscribe to %s", subject)
				}
			}
		})
	}
	tail := i.await(e, "the same leader", leads(1))
	if tail.Leader != "a" {
		t.Errorf("%s leads", tail.Leader)
	}
}

// refused tells whether the server refuses what do sends.
func refused(t *testing.T, nc *nats.Conn, do func() error) bool {
	t.Helper()
	before := nc.LastError()
	if err := do(); err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushTimeout(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	last := nc.LastError()
	return last != before && errors.Is(last, nats.ErrPermissionViolation) //nolint:errorlint // identity is what is asked for
}

// Whoever may ask JetStream names the subject of the answer, and the server does
// not ask whether they may publish there. A reader that uses this to speak to a
// leader and its workers in the server's name is not listened to.
func TestReaderCannotSpeakThroughTheServer(t *testing.T) {
	i, e, _, worker := running(t)
	reader := i.users["reader"].enter(t, i.nats)
	request := func(subject, reply string, body any) {
		t.Helper()
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if err := reader.PublishRequest(subject, reply, data); err != nil {
			t.Fatal(err)
		}
	}
	var aims []string
	for _, verb := range []string{events.StepDownVerb, events.DrainVerb, events.GrantVerb, events.ReturnVerb} {
		aims = append(aims, e.RequestSubject(events.DefaultPrefix, verb))
	}
	// The administrator of this test sees that the messages arrive.
	heard := i.hear(aims)
	for _, aim := range aims {
		request("$JS.API.STREAM.MSG.GET.LEADERBRIDGE", aim, map[string]any{"last_by_subj": e.Filter(events.DefaultPrefix)})
		request("$JS.API.STREAM.INFO.LEADERBRIDGE", aim, map[string]any{})
		request("$JS.API.CONSUMER.CREATE.LEADERBRIDGE."+strings.ReplaceAll(aim, ".", "_"), i.users["reader"].inbox()+".created", map[string]any{
			"stream_name": "LEADERBRIDGE",
			"config": map[string]any{
				"name": strings.ReplaceAll(aim, ".", "_"), "deliver_subject": aim, "deliver_policy": "all", "ack_policy": "none",
				"idle_heartbeat": 200 * time.Millisecond, "flow_control": true,
			},
		})
	}
	testenv.Eventually(t, 20*time.Second, func() error {
		for _, aim := range aims {
			if n := heard(aim); n < 6 { // two answers, two events, two heartbeats
				return fmt.Errorf("%d messages on %s", n, aim)
			}
		}
		return nil
	})
	testenv.Always(t, 2*time.Second, func() error {
		if n := strings.Count(worker.Stdout(), "at work"); n != 1 {
			return fmt.Errorf("the worker began %d times", n)
		}
		select {
		case <-worker.Done():
			return errors.New("the worker has ended")
		default:
		}
		return nil
	})
	if tail := i.await(e, "the same leader", leads(1)); tail.Leader != "a" {
		t.Errorf("%s leads", tail.Leader)
	}
	if strings.Contains(worker.Stderr(), "drain") {
		t.Errorf("the worker was asked to stop")
	}
}

// hear counts messages by subject, as a user who may do everything.
func (i *install) hear(subjects []string) func(subject string) int {
	i.t.Helper()
	var mu sync.Mutex
	counts := map[string]int{}
	nc := i.users["admin"].enter(i.t, i.nats)
	for _, subject := range subjects {
		if _, err := nc.Subscribe(subject, func(*nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			counts[subject]++
		}); err != nil {
			i.t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(10 * time.Second); err != nil {
		i.t.Fatal(err)
	}
	return func(subject string) int {
		mu.Lock()
		defer mu.Unlock()
		return counts[subject]
	}
}
