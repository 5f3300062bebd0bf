package natsconn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// Case 67: NATS is not there at the start.
func TestConnectsOnceTheServerIsThere(t *testing.T) {
	port, err := testenv.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("nats://127.0.0.1:%d", port)
	conn, book := open(t, Options{URLs: []string{url}, Name: "early"})

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = conn.WaitConnected(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), url) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("waiting without a server: %v", err)
	}

	natsenv.Start(t, func(o *server.Options) { o.Port = port })
	waitConnected(t, conn)
	waitLog(t, book, 1, "connected to NATS")
	if n := len(book.lines("NATS is not reachable", "connection refused")); n != 1 {
		t.Errorf("%d lines say that NATS is not reachable, want 1", n)
	}
	if n := len(strings.Split(strings.TrimSpace(book.String()), "\n")); n != 2 {
		t.Errorf("%d log lines, want 2", n)
	}
}

// An outage is one line when it begins and one when it ends; a publish into it
// fails at once and is not made up for (case 55).
func TestRestartOfTheServer(t *testing.T) {
	srv := natsenv.Start(t)
	conn, book := open(t, Options{URLs: []string{srv.URL()}})
	waitConnected(t, conn)
	sub, err := srv.Connect(t).SubscribeSync("probe")
	if err != nil {
		t.Fatal(err)
	}
	for round := 1; round <= 2; round++ {
		srv.Stop()
		waitLog(t, book, round, "NATS connection lost")
		for range 3 {
			if err := conn.Publish("probe", []byte("late")); err == nil {
				t.Error("a publish succeeded while there was no server")
			}
		}
		srv.Restart(t)
		waitConnected(t, conn)
		waitLog(t, book, round, "connected to NATS again")
	}
	testenv.Eventually(t, patience, func() error { return conn.Publish("probe", []byte("now")) })
	testenv.Eventually(t, patience, func() error { return conn.Flush() })
	testenv.Eventually(t, patience, func() error {
		msg, err := sub.NextMsg(time.Second)
		if err == nil && string(msg.Data) != "now" {
			t.Errorf("got %q: buffered through the outage", msg.Data)
		}
		if err != nil {
			err = errors.Join(err, conn.Publish("probe", []byte("now"))) // the subscriber was late itself
		}
		return err
	})
	for _, words := range []string{"NATS connection lost", "connected to NATS again"} {
		if n := len(book.lines(words)); n != 2 {
			t.Errorf("%d lines %q after two outages", n, words)
		}
	}
	if n := len(strings.Split(strings.TrimSpace(book.String()), "\n")); n != 5 {
		t.Errorf("%d log lines, want 5", n)
	}
}

// Cases 58 and 59, as far as they lie with the connection's settings: an
// ordered consumer goes on where it was.
func TestConsumerGoesOnAfterRestart(t *testing.T) {
	srv := natsenv.Start(t)
	conn, _ := open(t, Options{URLs: []string{srv.URL()}})
	waitConnected(t, conn)
	js, err := conn.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	if err != nil {
		t.Fatal(err)
	}
	cons, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 10)
	consuming, err := cons.Consume(func(m jetstream.Msg) { got <- string(m.Data()) })
	if err != nil {
		t.Fatal(err)
	}
	defer consuming.Stop()
	for i := range 3 {
		data := fmt.Sprint(i)
		testenv.Eventually(t, patience, func() error {
			_, err := js.Publish(t.Context(), "s", []byte(data), jetstream.WithExpectLastSequence(uint64(i)))
			return err
		})
		select {
		case m := <-got:
			if m != data {
				t.Fatalf("got %q, want %q", m, data)
			}
		case <-time.After(patience):
			t.Fatalf("message %d does not arrive", i)
		}
		srv.Restart(t)
		waitConnected(t, conn)
	}
}

func TestAuthentication(t *testing.T) {
	user := newNKey(t)
	for _, tc := range []struct {
		name   string
		server natsenv.Option
		o      Options
		inURL  *url.Userinfo
	}{
		{name: "none", server: func(*server.Options) {}},
		{name: "user and password", server: withUser("s3cret"), o: Options{User: "bridge", Password: "s3cret"}},
		{name: "password with odd characters", server: withUser("s3cret,@/:%#"), o: Options{User: "bridge", Password: "s3cret,@/:%#"}},
		{name: "password file", server: withUser("s3cret"), o: Options{User: "bridge", PasswordFile: tempFile(t, "pw", "s3cret\n")}},
		{name: "in the URL", server: withUser("s3cret,@/:%#"), inURL: url.UserPassword("bridge", "s3cret,@/:%#")},
		{name: "token", server: withToken("s3cret"), o: Options{Token: "s3cret"}},
		{name: "token file", server: withToken("s3cret"), o: Options{TokenFile: tempFile(t, "token", "s3cret\n")}},
		{name: "token in the URL", server: withToken("s3cret"), inURL: url.User("s3cret")},
		{name: "nkey", server: withNKeys(user), o: Options{NKey: tempFile(t, "seed", user.seed)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := natsenv.Start(t, tc.server)
			u := url.URL{Scheme: "nats", Host: strings.TrimPrefix(srv.URL(), "nats://"), User: tc.inURL}
			tc.o.URLs = []string{strings.ReplaceAll(u.String(), ",", "%2C")}
			conn, book := open(t, tc.o)
			waitConnected(t, conn)
			waitLog(t, book, 1, "connected to NATS")
		})
	}
}

// A wrong credential is refused for as long as it is wrong, is told once, and
// the right one is used as soon as it is there.
func TestRotatedSecretIsUsed(t *testing.T) {
	old, next := newNKey(t), newNKey(t)
	for _, tc := range []struct {
		name          string
		before, after natsenv.Option
		file, content string
		o             func(file string) Options
	}{
		{"password", withUser("s3cret-1"), withUser("s3cret-2"), "s3cret-1", "s3cret-2",
			func(file string) Options { return Options{User: "bridge", PasswordFile: file} }},
		{"token", withToken("s3cret-1"), withToken("s3cret-2"), "s3cret-1", "s3cret-2",
			func(file string) Options { return Options{TokenFile: file} }},
		{"nkey", withNKeys(old), withNKeys(next), old.seed, next.seed,
			func(file string) Options { return Options{NKey: file} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := tempFile(t, "secret", tc.file)
			srv := natsenv.Start(t, tc.before)
			o := tc.o(file)
			o.URLs = []string{srv.URL()}
			conn, book := open(t, o)
			waitConnected(t, conn)
			srv.Stop()
			waitAway(t, conn)

			port := portOf(t, srv)
			again := natsenv.Start(t, tc.after, func(o *server.Options) { o.Port = port })
			refusedTimes(t, again, 3)
			if conn.IsClosed() {
				t.Fatal("gave up")
			}
			replace(t, file, tc.content)
			waitConnected(t, conn)
			waitLog(t, book, 1, "connected to NATS again")
			if n := len(book.lines("cannot be made", "authorization violation")) + len(book.lines("cannot be made", "Authorization Violation")); n != 1 {
				t.Errorf("%d lines tell the refusal, want 1", n)
			}
		})
	}
}

// A file that vanishes for a moment is no end either.
func TestSecretFileAwayForAMoment(t *testing.T) {
	user := newNKey(t)
	file := tempFile(t, "seed", user.seed)
	srv := natsenv.Start(t, withNKeys(user))
	conn, book := open(t, Options{URLs: []string{srv.URL()}, NKey: file})
	waitConnected(t, conn)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	srv.Restart(t)
	waitLog(t, book, 1, "cannot be made", "no such file")
	replace(t, file, user.seed)
	waitConnected(t, conn)
}

func TestFilesThatCannotWork(t *testing.T) {
	garbage := tempFile(t, "garbage", "s3cret nonsense")
	empty := tempFile(t, "empty", "\n")
	absent := garbage + ".absent"
	for _, tc := range []struct {
		name string
		o    Options
		want string
	}{
		{"credentials absent", Options{Creds: absent}, "--nats-creds: open " + absent + ": no such file or directory"},
		{"credentials garbage", Options{Creds: garbage}, "--nats-creds: " + garbage + " holds no user JWT"},
		{"seed absent", Options{NKey: absent}, "--nats-nkey: open " + absent + ": no such file or directory"},
		{"seed garbage", Options{NKey: garbage}, "--nats-nkey: " + garbage + " holds no user's NKey seed"},
		{"password file absent", Options{User: "u", PasswordFile: absent}, "--nats-password-file: open " + absent + ": no such file or directory"},
		{"token file empty", Options{TokenFile: empty}, "--nats-token-file: " + empty + " is empty"},
		{"CA absent", Options{TLSCA: absent}, "--nats-tls-ca: open " + absent + ": no such file or directory"},
		{"CA garbage", Options{TLSCA: garbage}, "--nats-tls-ca: " + garbage + " holds no PEM certificate"},
		{"certificate garbage", Options{TLSCert: garbage, TLSKey: garbage}, "--nats-tls-cert, --nats-tls-key: tls: failed to find any PEM data in certificate input"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Connect(t.Context(), tc.o, slog.New(slog.DiscardHandler))
			if f := faultsOf(t, err); len(f) != 1 || f[0] != tc.want {
				t.Errorf("got %q, want %q", f, tc.want)
			}
		})
	}
	_, err := Connect(t.Context(), Options{Creds: absent, TLSCA: garbage}, slog.New(slog.DiscardHandler))
	if f := faultsOf(t, err); len(f) != 2 {
		t.Errorf("all faults at once: got %q", f)
	}
}

func TestConnectionFromAContext(t *testing.T) {
	srv := natsenv.Start(t, withUser("s3cret"))
	writeContext(t, fmt.Sprintf(`{"url": %q, "user": "bridge", "password": "s3cret", "jetstream_domain": "hub", "inbox_prefix": "_MINE"}`, srv.URL()))
	conn, _ := open(t, Options{Context: "prod"})
	waitConnected(t, conn)
	if domain, prefix := conn.JetStreamAt(); domain != "hub" || prefix != "" {
		t.Errorf("JetStream at %q, %q", domain, prefix)
	}
	if inbox := conn.NewRespInbox(); !strings.HasPrefix(inbox, "_MINE.") {
		t.Errorf("inbox %q", inbox)
	}
}

func TestJetStreamInItsPlace(t *testing.T) {
	srv := natsenv.Start(t, func(o *server.Options) { o.JetStreamDomain = "hub" })
	for _, tc := range []struct {
		o  Options
		ok bool
	}{
		{Options{}, true},
		{Options{JSDomain: "hub"}, true},
		{Options{JSAPIPrefix: "$JS.hub.API"}, true},
		{Options{JSDomain: "other"}, false},
		{Options{JSAPIPrefix: "$JS.other.API"}, false},
	} {
		tc.o.URLs = []string{srv.URL()}
		conn, _ := open(t, tc.o)
		waitConnected(t, conn)
		js, err := conn.JetStream()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.AccountInfo(t.Context()); (err == nil) != tc.ok {
			t.Errorf("domain %q, prefix %q: %v", tc.o.JSDomain, tc.o.JSAPIPrefix, err)
		}
	}
}

// Case 57: a missing permission looks like a timeout.
func TestExplainTellsAMissingPermission(t *testing.T) {
	srv := natsenv.Start(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "mute", Password: "s3cret", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"events.>"}}}},
			{Username: "deaf", Password: "s3cret", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"_INBOX.>"}}}},
		}
	})
	request := func(t *testing.T, conn *Conn, subject string) error {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := conn.RequestWithContext(ctx, subject, []byte("x"))
		return err
	}
	t.Run("publish", func(t *testing.T) {
		conn, book := open(t, Options{URLs: []string{srv.URL()}, User: "mute", Password: "s3cret"})
		waitConnected(t, conn)
		for range 3 {
			plain := request(t, conn, "events.a")
			err := conn.Explain("events.a", plain)
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), `Publish to "events.a"`) {
				t.Errorf("got %v", err)
			}
			if other := conn.Explain("events.b", plain); !errors.Is(other, plain) || errors.Is(other, nats.ErrPermissionViolation) {
				t.Errorf("another subject is blamed: %v", other)
			}
		}
		if conn.Explain("events.a", nil) != nil {
			t.Error("success is explained")
		}
		if n := len(book.lines("NATS refuses what this needs", "events.a")); n != 1 {
			t.Errorf("%d log lines, want 1", n)
		}
	})
	t.Run("answers", func(t *testing.T) {
		conn, _ := open(t, Options{URLs: []string{srv.URL()}, User: "deaf", Password: "s3cret"})
		waitConnected(t, conn)
		responder, err := conn.Subscribe("echo", func(m *nats.Msg) { _ = m.Respond(nil) })
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = responder.Unsubscribe() }()
		if err := conn.Explain("echo", request(t, conn, "echo")); !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), `Subscription to "_INBOX`) {
			t.Errorf("got %v", err)
		}
	})
}

// Case 69: some errors make the client library close the connection, whatever
// it was told. One of them is a subject longer than the server takes, of which
// clients are not told.
func TestClosedByTheLibraryIsReported(t *testing.T) {
	var configured *server.Options
	srv := natsenv.Start(t, func(o *server.Options) { configured = o })
	conn, _ := open(t, Options{URLs: []string{srv.URL()}})
	waitConnected(t, conn)
	select {
	case <-conn.Done():
		t.Fatal("closed at the start")
	default:
	}
	lower := configured.Clone()
	lower.MaxControlLine = 128
	if err := srv.Embedded().ReloadOptions(lower); err != nil {
		t.Fatal(err)
	}
	if err := conn.Publish(strings.Repeat("long.", 100)+"subject", nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-conn.Done():
	case <-time.After(patience):
		t.Fatal("not reported as closed")
	}
	if err := conn.Err(); err == nil || !strings.Contains(strings.ToLower(err.Error()), "maximum control line") {
		t.Errorf("got %v", err)
	}
	if err := conn.WaitConnected(t.Context()); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("waiting on a closed connection: %v", err)
	}
}

func TestCloseIsNoError(t *testing.T) {
	srv := natsenv.Start(t)
	for name, end := range map[string]func(*Conn){
		"close":       (*Conn).Close,
		"drain":       func(c *Conn) { _ = c.Drain() },
		"close twice": func(c *Conn) { c.Close(); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			conn, book := open(t, Options{URLs: []string{srv.URL()}})
			waitConnected(t, conn)
			end(conn)
			select {
			case <-conn.Done():
			case <-time.After(patience):
				t.Fatal("not done")
			}
			if err := conn.Err(); err != nil {
				t.Error(err)
			}
			if n := len(book.lines("lost")); n != 0 {
				t.Error("a wanted end is logged as a loss")
			}
		})
	}
}

// A server that takes connections and says nothing holds up neither the end of
// the context nor Close for longer than an attempt.
func TestSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := Connect(ctx, Options{URLs: []string{"nats://" + l.Addr().String()}}, slog.New(slog.DiscardHandler)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > attemptTimeout+5*time.Second {
		t.Errorf("took %s", took)
	}
}
