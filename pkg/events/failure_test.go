package events_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// oneLine checks that an error is one that an operator can read.
func oneLine(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q: want %q in it", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q: more than one line", err)
	}
	t.Log(err)
}

func TestOpenRefusesBadOptions(t *testing.T) {
	s := natsenv.Start(t)
	for _, opts := range []events.Options{
		{Stream: "a.b"},
		{Stream: "a b"},
		{Bucket: "x>"},
		{Prefix: "a..b"},
		{Prefix: "$JS"},
		{ContentMode: "batch"},
		{Domain: "a", APIPrefix: "b"},
		{Replicas: 6},
		{Replicas: -1},
	} {
		_, err := events.Open(t.Context(), s.Connect(t), opts)
		oneLine(t, err, "open the log: ")
	}
}

// A stream that does not fit is left alone, and the error says all that is
// wrong with it.
func TestOpenVerifiesAndAltersNothing(t *testing.T) {
	s := natsenv.Start(t)
	js := s.JetStream(t)
	makePlainStream(t, js, func(c *jetstream.StreamConfig) {
		c.Subjects, c.NoAck, c.MaxMsgs, c.Description = []string{"leaderbridge.>"}, true, 77, "not yours"
		c.Storage = jetstream.MemoryStorage
	})
	before, err := js.Stream(patient(t), events.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	_, err = events.Open(t.Context(), s.Connect(t), events.Options{})
	if !errors.Is(err, events.ErrMisfit) {
		t.Errorf("open: %v, want ErrMisfit", err)
	}
	oneLine(t, err, "subjects is leaderbridge.>", "storage is memory, want file", "no_ack is true, want false", "nats stream edit LEADERBRIDGE")
	after, err := js.Stream(patient(t), events.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if was, is := fmt.Sprintf("%+v", before.CachedInfo().Config), fmt.Sprintf("%+v", after.CachedInfo().Config); was != is {
		t.Errorf("the stream was altered from %s to %s", was, is)
	}
}

func TestOpenVerifiesTheBucket(t *testing.T) {
	s := natsenv.Start(t)
	js := s.JetStream(t)
	if _, err := js.CreateKeyValue(patient(t), jetstream.KeyValueConfig{Bucket: events.DefaultBucket}); err != nil {
		t.Fatal(err)
	}
	_, err := events.Open(t.Context(), s.Connect(t), events.Options{})
	if !errors.Is(err, events.ErrMisfit) {
		t.Errorf("open: %v, want ErrMisfit", err)
	}
	oneLine(t, err, "bucket leaderbridge_leaders: sources is empty", "nats kv del leaderbridge_leaders")
}

// Another stream has our subjects already: then ours cannot be made.
func TestOpenWithSubjectsTaken(t *testing.T) {
	s := natsenv.Start(t)
	makePlainStream(t, s.JetStream(t), func(c *jetstream.StreamConfig) { c.Name = "AUDIT" })
	_, err := events.Open(t.Context(), s.Connect(t), events.Options{})
	if !errors.Is(err, events.ErrMisfit) {
		t.Errorf("open: %v, want ErrMisfit", err)
	}
	oneLine(t, err, "the stream AUDIT has the subjects leaderbridge.event.>")
}

func TestManyCreateAtOnce(t *testing.T) {
	s := natsenv.Start(t)
	var wg sync.WaitGroup
	for range 10 {
		conn := s.Connect(t)
		wg.Go(func() {
			if _, err := events.Open(patient(t), conn, events.Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestDomainAndAPIPrefix(t *testing.T) {
	s := natsenv.Start(t, func(o *server.Options) { o.JetStreamDomain = "hub" })
	for _, opts := range []events.Options{{Domain: "hub"}, {APIPrefix: "$JS.hub.API"}, {APIPrefix: "$JS.hub.API."}} {
		log := openLog(t, s, opts)
		handOver(t, log, scheduler, 1)
		f := startFollower(t, log, events.FollowOptions{})
		f.becomes(t, nil)
	}
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := events.Open(short, s.Connect(t), events.Options{Domain: "elsewhere"})
	if !errors.Is(err, events.ErrNoJetStream) {
		t.Errorf("open in a domain that does not exist: %v, want ErrNoJetStream", err)
	}
	oneLine(t, err, "JetStream does not answer")
}

func TestNoJetStream(t *testing.T) {
	s := natsenv.Start(t, func(o *server.Options) { o.JetStream = false })
	_, err := events.Open(t.Context(), s.Connect(t), events.Options{})
	if !errors.Is(err, events.ErrNoJetStream) {
		t.Errorf("open: %v, want ErrNoJetStream", err)
	}
	oneLine(t, err, "JetStream does not answer")
}

// user makes one of a server's users.
func user(name string, deny ...string) *server.User {
	return &server.User{Username: name, Password: "x", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: deny},
	}}
}

// Case 57: NATS says beside the request that it is denied. It looks like a
// timeout.
func TestPermissions(t *testing.T) {
	s := natsenv.Start(t, func(o *server.Options) {
		o.Users = []*server.User{
			user("all"),
			user("lookup", "$JS.API.STREAM.CREATE.>", "$JS.API.STREAM.DELETE.>", "$JS.API.STREAM.UPDATE.>"),
			user("blind", "$JS.API.STREAM.INFO.>"),
			user("mute", "leaderbridge.event.>"),
			user("half", "leaderbridge.event.*.*.*.became-leader"),
			user("untold", "$JS.API.CONSUMER.>"),
		}
	})
	connect := func(name string) *nats.Conn {
		return s.Connect(t, nats.UserInfo(name, "x"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	}
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	denied := func(err error, parts ...string) {
		t.Helper()
		if !errors.Is(err, events.ErrForbidden) {
			t.Errorf("%v, want ErrForbidden", err)
		}
		oneLine(t, err, parts...)
	}

	_, err := events.Open(short(), connect("lookup"), events.Options{})
	denied(err, "$JS.API.STREAM.CREATE.LEADERBRIDGE")

	if _, err = events.Open(patient(t), connect("all"), events.Options{}); err != nil {
		t.Fatal(err)
	}
	log, err := events.Open(patient(t), connect("lookup"), events.Options{})
	if err != nil {
		t.Fatalf("open what others have created: %v", err)
	}
	handOver(t, log, scheduler, 1)
	_, err = events.Open(short(), connect("blind"), events.Options{})
	denied(err, "$JS.API.STREAM.INFO.LEADERBRIDGE")

	if log, err = events.Open(patient(t), connect("mute"), events.Options{}); err != nil {
		t.Fatal(err)
	}
	_, err = log.Append(short(), scheduler, 2, term(scheduler, 2)...)
	denied(err, "leaderbridge.event.default.prod.scheduler.stopped-leading", "append 3 events of default.prod.scheduler")

	if log, err = events.Open(patient(t), connect("half"), events.Options{}); err != nil {
		t.Fatal(err)
	}
	events.SetAtomic(log, true)
	_, err = log.Append(short(), scheduler, 2, term(scheduler, 2)...)
	denied(err, "leaderbridge.event.default.prod.scheduler.became-leader")
	if tail, err := log.Tail(patient(t), scheduler); err != nil || tail.Seq != 2 {
		t.Errorf("tail after refused appends: %+v, %v, want sequence 2", tail, err)
	}

	if log, err = events.Open(patient(t), connect("untold"), events.Options{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	f := startFollower(t, log, events.FollowOptions{})
	f.becomes(t, events.ErrForbidden)
}

// The permissions that docs/log.md lists are enough, and none is listed in vain:
// without any one of them, something fails.
func TestLeastPermissions(t *testing.T) {
	inbox := []string{"_INBOX.>"}
	read := []string{
		"$JS.API.STREAM.INFO.LEADERBRIDGE",
		"$JS.API.STREAM.MSG.GET.LEADERBRIDGE",
		"$JS.API.CONSUMER.CREATE.LEADERBRIDGE.>",
	}
	flow := "$JS.FC.LEADERBRIDGE.>"
	write := append([]string{
		"leaderbridge.event.>",
		"$JS.API.STREAM.INFO.KV_leaderbridge_leaders",
	}, read...)
	create := append([]string{
		"$JS.API.STREAM.CREATE.LEADERBRIDGE",
		"$JS.API.STREAM.CREATE.KV_leaderbridge_leaders",
		"$JS.API.STREAM.MSG.GET.KV_leaderbridge_leaders",
	}, write...)
	grants := map[string][]string{"create": append(create, flow), "write": append(write, flow), "read": append(read, flow)}
	for _, list := range [][]string{write, read} {
		for i, subject := range list {
			grants[fmt.Sprintf("%d without %s", len(list), subject)] = append(append([]string{flow}, list[:i]...), list[i+1:]...)
		}
	}
	var users []*server.User
	for name, allow := range grants {
		users = append(users, &server.User{Username: name, Password: "x", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: allow}, Subscribe: &server.SubjectPermission{Allow: inbox},
		}})
	}
	s := natsenv.Start(t, func(o *server.Options) { o.Users = users })
	connect := func(name string) *nats.Conn {
		return s.Connect(t, nats.UserInfo(name, "x"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	}
	// use does what a bridge or a worker does, and reports what was denied.
	use := func(conn *nats.Conn, readOnly bool) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		log, err := events.Open(ctx, conn, events.Options{ReadOnly: readOnly})
		if err != nil {
			return err
		}
		if readOnly {
			if _, err := log.Tail(ctx, scheduler); err != nil {
				return err
			}
		} else if _, err := step(ctx, log, scheduler); err != nil {
			return err
		}
		following, end := context.WithCancelCause(ctx)
		defer end(nil)
		current := errors.New("current")
		err = log.Follow(following, events.FollowOptions{OnState: func(state events.FeedState) {
			if state.Err != nil {
				end(state.Err)
			} else {
				end(current)
			}
		}}, func(events.Entry) error { return nil })
		if errors.Is(err, current) {
			return nil
		}
		return err
	}
	for _, name := range []string{"create", "write", "read"} {
		if err := use(connect(name), name == "read"); err != nil {
			t.Errorf("with the permissions to %s: %v", name, err)
		}
	}
	var wg sync.WaitGroup
	for name := range grants {
		if _, subject, ok := strings.Cut(name, " without "); ok {
			conn := connect(name)
			wg.Go(func() {
				err := use(conn, strings.HasPrefix(name, fmt.Sprint(len(read))))
				if !errors.Is(err, events.ErrForbidden) {
					t.Errorf("%s: %v, want ErrForbidden", name, err)
				} else if stem, _, _ := strings.Cut(subject, ".>"); !strings.Contains(err.Error(), stem) {
					t.Errorf("%s: %v, which does not name it", name, err)
				}
			})
		}
	}
	wg.Wait()
}

// The right to publish is taken away and given back, while the bridge runs.
func TestPermissionsRevokedAndRestored(t *testing.T) {
	var options *server.Options
	s := natsenv.Start(t, func(o *server.Options) {
		o.Users = []*server.User{user("bridge")}
		options = o
	})
	conn := s.Connect(t, nats.UserInfo("bridge", "x"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	log, err := events.Open(patient(t), conn, events.Options{})
	if err != nil {
		t.Fatal(err)
	}
	reload := func(users ...*server.User) {
		t.Helper()
		options = options.Clone()
		options.Users = users
		if err := s.Embedded().ReloadOptions(options); err != nil {
			t.Fatal(err)
		}
	}
	handOver(t, log, scheduler, 1)
	reload(user("bridge", "leaderbridge.event.>"))
	testenv.Eventually(t, patience, func() error {
		if err := tryStep(log, scheduler); !errors.Is(err, events.ErrForbidden) {
			return fmt.Errorf("append without the right: %w, want ErrForbidden", err)
		}
		return nil
	})
	reload(user("bridge"))
	testenv.Eventually(t, patience, func() error { return tryStep(log, scheduler) })
	if err := exact(history(t, newJetStream(t, conn), scheduler)); err != nil {
		t.Error(err)
	}
}

func newJetStream(t testing.TB, conn *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// Case 65: a full stream answers with 503, as does one without a leader.
func TestFullStream(t *testing.T) {
	modes(t, func(t *testing.T, atomic bool) {
		s := natsenv.Start(t)
		js := s.JetStream(t)
		full := jetstream.StreamConfig{
			Name: events.DefaultStream, Subjects: []string{"leaderbridge.event.>"},
			MaxMsgs: 4, Discard: jetstream.DiscardNew, AllowAtomicPublish: true,
		}
		if _, err := js.CreateStream(patient(t), full); err != nil {
			t.Fatal(err)
		}
		log := openAtomic(t, s, atomic)
		handOver(t, log, scheduler, 1)
		last, err := log.Append(patient(t), scheduler, 2, term(scheduler, 2)...)
		if !errors.Is(err, events.ErrFull) {
			t.Fatalf("append to a full stream: %d, %v, want ErrFull", last, err)
		}
		oneLine(t, err, "maximum messages exceeded", "raise the limits")
		// One by one, what fits was stored, and the sequence says so.
		tail, err := log.Tail(patient(t), scheduler)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]uint64{true: 2, false: 4}[atomic]; tail.Seq != want || !atomic && last != want {
			t.Errorf("the log ends at %d, append returned %d, want %d", tail.Seq, last, want)
		}
		full.MaxMsgs = 100
		if _, err := js.UpdateStream(patient(t), full); err != nil {
			t.Fatal(err)
		}
		handOver(t, log, scheduler, 2)
		if err := exact(history(t, js, scheduler)); err != nil {
			t.Error(err)
		}
	})
}

func TestAppendRefusesWhatIsNoEvent(t *testing.T) {
	log := openLog(t, natsenv.Start(t), events.Options{})
	bad := term(scheduler, 1)
	bad[1].Leader = ""
	for name, all := range map[string][]events.Event{"incomplete": bad, "of another election": term(lease("other"), 1)} {
		if _, err := log.Append(patient(t), scheduler, 0, all...); !errors.Is(err, events.ErrRefused) {
			t.Errorf("append of an event that is %s: %v, want ErrRefused", name, err)
		}
	}
	if seq, err := log.Append(patient(t), scheduler, 3); seq != 3 || err != nil {
		t.Errorf("append of nothing: %d, %v", seq, err)
	}
	if _, err := log.Tail(patient(t), events.Election{Cluster: "*"}); err == nil {
		t.Error("tail of an election with an illegal name: no error")
	}
}

// Somebody turns atomic publishing off under us.
func TestAtomicTurnedOff(t *testing.T) {
	s := natsenv.Start(t)
	makePlainStream(t, s.JetStream(t), func(*jetstream.StreamConfig) {})
	log := openAtomic(t, s, true)
	handOver(t, log, scheduler, 2)
	if log.Atomic() {
		t.Error("the log still claims to be atomic")
	}
	if err := exact(history(t, s.JetStream(t), scheduler)); err != nil {
		t.Error(err)
	}
}

// Case 53: the window for duplicates is over. The condition holds all the same.
func TestOldEventsAfterTheWindow(t *testing.T) {
	modes(t, func(t *testing.T, atomic bool) {
		s := natsenv.Start(t)
		js := s.JetStream(t)
		makePlainStream(t, js, func(c *jetstream.StreamConfig) {
			c.Duplicates, c.AllowAtomicPublish = 100*time.Millisecond, true
		})
		log := openAtomic(t, s, atomic)
		handOver(t, log, scheduler, 2)
		for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
			testenv.Always(t, wait, func() error {
				for _, after := range []uint64{0, 2, 3} {
					if _, err := log.Append(t.Context(), scheduler, after, term(scheduler, 2)...); !errors.Is(err, events.ErrBehind) {
						return fmt.Errorf("append after %d: %w, want ErrBehind", after, err)
					}
				}
				return nil
			})
		}
		all := history(t, js, scheduler)
		if err := exact(all); err != nil || len(all) != 5 {
			t.Errorf("%d events, %v", len(all), err)
		}
	})
}

// Case 52: the window outlives what it stands for. Events that the log has lost
// are stored again, although the server remembers their ids.
func TestRememberedIDsDoNotHideEvents(t *testing.T) {
	modes(t, func(t *testing.T, atomic bool) {
		s := natsenv.Start(t)
		js := s.JetStream(t)
		makePlainStream(t, js, func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = true })
		log := openAtomic(t, s, atomic)
		handOver(t, log, scheduler, 2)
		stream, err := js.Stream(patient(t), events.DefaultStream)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Purge(patient(t)); err != nil {
			t.Fatal(err)
		}
		handOver(t, log, scheduler, 2)
		all := history(t, js, scheduler)
		if err := exact(all); err != nil || len(all) != 5 {
			t.Errorf("%d events, %v, want 5", len(all), err)
		}
	})
}

// proxy stands between a client and its server and can swallow what the server
// says.
type proxy struct {
	address string
	silent  atomic.Bool
}

func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: "nats://" + listener.Addr().String()}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", strings.TrimPrefix(target, "nats://"))
			if err != nil {
				_ = client.Close()
				continue
			}
			wg.Go(func() {
				_, _ = io.Copy(upstream, client)
				_ = upstream.Close()
			})
			wg.Go(func() {
				_, _ = io.Copy(writer(func(b []byte) (int, error) {
					if p.silent.Load() {
						return len(b), nil
					}
					return client.Write(b)
				}), upstream)
				_ = client.Close()
			})
		}
	})
	return p
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// The answer to an append is lost. The caller does not know, reads the tail,
// and knows; and what was sent twice is stored once.
func TestLostAck(t *testing.T) {
	modes(t, func(t *testing.T, atomic bool) {
		s := natsenv.Start(t)
		openLog(t, s, events.Options{})
		p := startProxy(t, s.URL())
		conn, err := nats.Connect(p.address, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		log, err := events.Open(patient(t), conn, events.Options{})
		if err != nil {
			t.Fatal(err)
		}
		events.SetAtomic(log, atomic)
		handOver(t, log, scheduler, 1)

		p.silent.Store(true)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		all := term(scheduler, 2)
		if _, err := log.Append(short, scheduler, 2, all...); !errors.Is(err, events.ErrOutcomeUnknown) {
			t.Fatalf("append without an answer: %v, want ErrOutcomeUnknown", err)
		}
		p.silent.Store(false)
		// The client has lost its place in what the server says.
		if err := conn.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		var tail events.Tail
		testenv.Eventually(t, patience, func() error {
			tail, err = log.Tail(t.Context(), scheduler)
			return err
		})
		want := all[len(all)-1]
		if !atomic {
			want = all[0]
		}
		if tail.Last.ID() != want.ID() {
			t.Errorf("tail: %s, want %s", tail.Last.ID(), want.ID())
		}
		if _, err := log.Append(patient(t), scheduler, 2, all...); !errors.Is(err, events.ErrBehind) {
			t.Errorf("the same append again: %v, want ErrBehind", err)
		}
		handOver(t, log, scheduler, 2)
		if err := exact(history(t, s.JetStream(t), scheduler)); err != nil {
			t.Error(err)
		}
	})
}

// Cases 54 and 55: while there is no server, an append fails at once, and the
// client does not keep it for later.
func TestNoServer(t *testing.T) {
	s := natsenv.Start(t)
	conn := s.Connect(t)
	log, err := events.Open(patient(t), conn, events.Options{})
	if err != nil {
		t.Fatal(err)
	}
	handOver(t, log, scheduler, 1)
	s.Stop()
	testenv.Eventually(t, patience, func() error {
		if conn.IsConnected() {
			return errors.New("still connected")
		}
		return nil
	})
	started := time.Now()
	if _, err = log.Append(patient(t), scheduler, 2, term(scheduler, 2)...); !errors.Is(err, events.ErrUnavailable) {
		t.Errorf("append without a server: %v, want ErrUnavailable", err)
	}
	oneLine(t, err, "the connection to NATS is reconnecting")
	if _, err = log.Tail(patient(t), scheduler); !errors.Is(err, events.ErrUnavailable) {
		t.Errorf("tail without a server: %v, want ErrUnavailable", err)
	}
	if took := time.Since(started); took > patience/2 {
		t.Errorf("it took %s to say so", took)
	}
	s.Restart(t)
	testenv.Eventually(t, patience, func() error {
		tail, err := log.Tail(t.Context(), scheduler)
		if err == nil && tail.Seq != 2 {
			t.Errorf("tail after the restart: %d, want 2", tail.Seq)
		}
		return err
	})
	handOver(t, log, scheduler, 1)

	conn.Close()
	if _, err = log.Append(patient(t), scheduler, 5, term(scheduler, 3)...); !errors.Is(err, nats.ErrConnectionClosed) || !errors.Is(err, events.ErrUnavailable) {
		t.Errorf("append on a closed connection: %v, want ErrUnavailable", err)
	}
}
