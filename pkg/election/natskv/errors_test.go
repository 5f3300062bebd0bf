package natskv_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/election/natskv"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/tcpproxy"
)

func isConflict(err error) bool { return errors.Is(err, election.ErrConflict) }
func isRefused(err error) bool  { return errors.Is(err, election.ErrRefused) }

func withTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

// requestErrors makes each request once, with a second for each.
func requestErrors(t *testing.T, l election.Lock) map[string]error {
	t.Helper()
	base := election.Observation{Exists: true, UID: "u", Revision: 1}
	errs := map[string]error{}
	for verb, request := range map[string]func(context.Context) error{
		"read":   func(ctx context.Context) error { _, err := l.Read(ctx); return err },
		"create": func(ctx context.Context) error { _, err := l.Create(ctx, heldByA()); return err },
		"watch":  func(ctx context.Context) error { _, err := l.Watch(ctx); return err },
		"update": func(ctx context.Context) error { _, err := l.Update(ctx, base, heldByA()); return err },
	} {
		ctx, cancel := withTimeout(t, time.Second)
		errs[verb] = request(ctx)
		cancel()
	}
	return errs
}

func oneLine(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	for _, part := range append(parts, "NATS key leaderbridge_locks/prod.lock: ") {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
		t.Errorf("not one readable line: %q", err)
	}
}

func TestJetStreamOff(t *testing.T) {
	s := natsenv.Start(t, func(o *server.Options) { o.JetStream = false })
	for verb, err := range requestErrors(t, open(t, s.Connect(t), prodLock)) {
		oneLine(t, err, verb, "JetStream is off")
		if isRefused(err) || isConflict(err) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

func TestJetStreamOffForTheAccount(t *testing.T) {
	s := natsenv.Start(t, func(o *server.Options) {
		o.Accounts = []*server.Account{server.NewAccount("A")}
		o.Users = []*server.User{{Username: "u", Password: "p", Account: o.Accounts[0]}}
	})
	for verb, err := range requestErrors(t, open(t, s.Connect(t, nats.UserInfo("u", "p")), prodLock)) {
		oneLine(t, err, verb, "JetStream is")
		if isRefused(err) || isConflict(err) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

func TestServerAway(t *testing.T) {
	s := natsenv.Start(t)
	l := open(t, s.Connect(t), prodLock)
	o := mustCreate(t, l)
	s.Stop()
	testenv.Eventually(t, patience, func() error {
		for verb, err := range requestErrors(t, l) {
			if err == nil || !strings.Contains(err.Error(), "not connected to NATS") {
				return fmt.Errorf("%s: %w", verb, err)
			}
			oneLine(t, err, verb)
		}
		return nil
	})
	s.Restart(t)
	testenv.Eventually(t, patience, func() error {
		ctx, cancel := withTimeout(t, time.Second)
		defer cancel()
		// Nothing that was asked for in between was kept and made later.
		read, err := l.Read(ctx)
		if err == nil && read.Revision != o.Revision {
			t.Errorf("revision %d, want %d", read.Revision, o.Revision)
		}
		return err
	})
	if _, err := l.Update(t.Context(), o, heldByA()); err != nil {
		t.Error(err)
	}
}

// Each permission that is missing is named at once, not after a timeout.
func TestPermissions(t *testing.T) {
	const api = "$JS.API."
	all := []string{
		api + "STREAM.INFO." + bucketStream, api + "STREAM.CREATE." + bucketStream, api + "STREAM.MSG.GET." + bucketStream,
		api + "CONSUMER.CREATE." + bucketStream + ".>", api + "CONSUMER.DELETE." + bucketStream + ".>",
		"$KV." + natskv.DefaultBucket + ".prod.lock",
	}
	users := func(o *server.Options) {
		o.Users = []*server.User{{Username: "all", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: all}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		}}}
		for i := range all {
			o.Users = append(o.Users, &server.User{Username: fmt.Sprintf("without-%d", i), Password: "p", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: all, Deny: []string{all[i]}},
			}})
		}
	}
	s := natsenv.Start(t, users)
	connect := func(user string) *nats.Conn {
		return s.Connect(t, nats.UserInfo(user, "p"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	}
	denied := func(what, verb string, l election.Lock, base election.Observation) {
		t.Helper()
		ctx, cancel := withTimeout(t, patience)
		defer cancel()
		start := time.Now()
		var err error
		switch verb {
		case "read":
			_, err = l.Read(ctx)
		case "update":
			_, err = l.Update(ctx, base, heldByA())
		case "watch":
			_, err = l.Watch(ctx)
		}
		oneLine(t, err, verb, "refused", "may not publish to", what)
		if !isRefused(err) || time.Since(start) > 5*time.Second {
			t.Errorf("%s without %s: %v after %s", verb, what, err, time.Since(start))
		}
	}
	denied("STREAM.CREATE", "read", open(t, connect("without-1"), prodLock), election.Observation{})

	// These are enough, and the user may also watch.
	l := open(t, connect("all"), prodLock)
	o := mustCreate(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	watch, err := l.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if seen := <-watch; seen.Revision != o.Revision {
		t.Errorf("watched %+v", seen)
	}
	cancel()
	waitClosed(t, watch)
	if o, err = l.Update(t.Context(), o, heldByA()); err != nil {
		t.Fatal(err)
	}

	denied("STREAM.INFO", "read", open(t, connect("without-0"), prodLock), o)
	denied("STREAM.MSG.GET", "read", open(t, connect("without-2"), prodLock), o)
	denied("CONSUMER.CREATE", "watch", open(t, connect("without-3"), prodLock), o)
	denied("$KV.leaderbridge_locks.prod.lock", "update", open(t, connect("without-5"), prodLock), o)
	if _, err := open(t, connect("without-1"), prodLock).Read(t.Context()); err != nil {
		t.Errorf("the right to make a bucket is needed for one that exists: %v", err)
	}
	if read, err := l.Read(t.Context()); err != nil || read.Revision != o.Revision {
		t.Errorf("a write without permission was made: %+v, %v", read, err)
	}
}

func TestRecordThatDoesNotFit(t *testing.T) {
	s := natsenv.Start(t)
	if _, err := s.JetStream(t).CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: natskv.DefaultBucket, MaxValueSize: 512, MaxBytes: 8192}); err != nil {
		t.Fatal(err)
	}
	l := open(t, s.Connect(t), prodLock)
	o := mustCreate(t, l)
	r := heldByA()
	r.Holder = strings.Repeat("x", 600)
	if _, err := l.Update(t.Context(), o, r); !isRefused(err) {
		t.Errorf("a record that is too large: %v", err)
	} else {
		oneLine(t, err, "larger than the bucket allows")
	}
	var err error
	for i := range 100 {
		other := open(t, s.Connect(t), natskv.Options{Namespace: "prod", Name: fmt.Sprintf("l%d", i)})
		if _, err = other.Create(t.Context(), heldByA()); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "full") || isRefused(err) || isConflict(err) {
		t.Errorf("a bucket that is full: %v", err)
	}
}

func TestValueThatIsNoRecord(t *testing.T) {
	s := natsenv.Start(t)
	l := open(t, s.Connect(t), prodLock)
	mustCreate(t, l)
	operator := tools{s.JetStream(t), natskv.DefaultBucket, "prod.lock"}
	if _, err := operator.kv(t).Put(t.Context(), operator.key, []byte("mine")); err != nil {
		t.Fatal(err)
	}
	_, err := l.Read(t.Context())
	oneLine(t, err, "no election record", "delete the key")
	_, err = l.Create(t.Context(), heldByA())
	oneLine(t, err, "no election record")
	operator.delete(t)
	mustCreate(t, l)
}

func watchCount(t *testing.T, js jetstream.JetStream) int {
	t.Helper()
	s, err := js.Stream(t.Context(), bucketStream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Consumers
}

// A watch that hears nothing ends, whatever made it deaf.
func TestDeafWatchEnds(t *testing.T) {
	s := natsenv.Start(t)
	js := s.JetStream(t)
	proxy := tcpproxy.Start(t, s.Embedded().Addr().String())
	l := open(t, connect(t, proxy.Addr()), prodLock)
	mustCreate(t, l)
	begin := func() <-chan election.Observation {
		watch, err := l.Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		<-watch
		return watch
	}

	watch := begin()
	start := time.Now()
	proxy.Freeze()
	waitClosed(t, watch)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("silence was noticed after %s", took)
	}
	proxy.Thaw()

	watch = begin()
	proxy.Cut()
	waitClosed(t, watch)
	testenv.Eventually(t, patience, func() error {
		ctx, cancel := withTimeout(t, time.Second)
		defer cancel()
		_, err := l.Read(ctx)
		return err
	})

	watch = begin()
	stream, err := js.Stream(t.Context(), bucketStream)
	if err != nil {
		t.Fatal(err)
	}
	for name := range stream.ConsumerNames(t.Context()).Name() {
		if err := stream.DeleteConsumer(t.Context(), name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			t.Fatal(err)
		}
	}
	waitClosed(t, watch)
}

// Watches that ended leave nothing on the server.
func TestWatchesAreForgotten(t *testing.T) {
	s := natsenv.Start(t)
	js := s.JetStream(t)
	l := open(t, s.Connect(t), prodLock)
	mustCreate(t, l)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		watch, err := l.Watch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		<-watch
		cancel()
		waitClosed(t, watch)
	}
	testenv.Eventually(t, 5*time.Second, func() error { // sooner than the server forgets by itself
		if n := watchCount(t, js); n > 0 {
			return fmt.Errorf("%d watches are left", n)
		}
		return nil
	})
}
