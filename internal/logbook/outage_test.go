package logbook_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// pause is how long the terms last here: long enough to tell their times apart.
const pause = 100 * time.Millisecond

// early returns a connection to a server that need not be there yet.
func early(t *testing.T, url string, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, append([]nats.Option{
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func on(t *testing.T, url string, options ...nats.Option) func() *nats.Conn {
	return func() *nats.Conn { return early(t, url, options...) }
}

func withTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// makeStream makes the log's stream as an operator does.
func makeStream(t *testing.T, js jetstream.JetStream, change func(*jetstream.StreamConfig)) (update func(func(*jetstream.StreamConfig))) {
	t.Helper()
	config := jetstream.StreamConfig{Name: events.DefaultStream, Subjects: []string{"leaderbridge.event.>"}}
	change(&config)
	if _, err := js.CreateStream(withTimeout(t), config); err != nil {
		t.Fatal(err)
	}
	return func(change func(*jetstream.StreamConfig)) {
		t.Helper()
		change(&config)
		if _, err := js.UpdateStream(withTimeout(t), config); err != nil {
			t.Fatal(err)
		}
	}
}

// NATS is not there when the replicas start, and five terms go by before it is.
func TestNATSAwayAtStart(t *testing.T) {
	t.Parallel()
	s := natsenv.Start(t)
	url := s.URL()
	s.Stop()
	m := newTeam(t, on(t, url), "w", "a", "b")
	m.history(5, pause)
	s.Restart(t)
	m.check(m.settle(), 1)
}

// NATS is away for longer than its window for duplicates, and five terms go by
// meanwhile. LEADERBRIDGE_OUTAGE=10m lets it be away for so long, with the
// window that servers have by default.
func TestNATSAwayForLongerThanTheWindow(t *testing.T) {
	t.Parallel()
	away, window := 1500*time.Millisecond, 200*time.Millisecond
	if text := os.Getenv("LEADERBRIDGE_OUTAGE"); text != "" {
		var err error
		if away, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		window = 2 * time.Minute
	}
	s := natsenv.Start(t)
	makeStream(t, s.JetStream(t), func(c *jetstream.StreamConfig) { c.Duplicates = window })
	m := newTeam(t, on(t, s.URL()), "w", "a", "b")
	m.history(2, pause)
	m.settle()
	s.Stop()
	m.history(5, away/5)
	s.Restart(t)
	m.check(m.settle(), 1)
}

// The server comes back without its files: the log begins anew, with the terms
// of the outage, says what is missing, and goes on with the numbers.
func TestNATSBackEmpty(t *testing.T) {
	t.Parallel()
	s := natsenv.Start(t)
	m := newTeam(t, on(t, s.URL()), "w", "a", "b")
	m.history(2, pause)
	m.settle()
	files := s.Embedded().StoreDir()
	s.Stop()
	m.history(5, pause)
	if err := os.RemoveAll(files); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	all := m.settle()
	m.check(all, 3)
	if first := all[0]; first.Epoch != 3 || first.Missed != 2 {
		t.Errorf("the new log begins with term %d and %d missed, want 3 and 2", first.Epoch, first.Missed)
	}
}

// The server comes back with files from before the last term: that one is
// missing, the log says so, and its number is not given again.
func TestNATSBackWithAnOlderState(t *testing.T) {
	t.Parallel()
	s := natsenv.Start(t)
	m := newTeam(t, on(t, s.URL()), "w", "a", "b")
	m.history(1, pause)
	m.settle()
	files, backup := s.Embedded().StoreDir(), filepath.Join(t.TempDir(), "backup")
	s.Stop()
	if err := os.CopyFS(backup, os.DirFS(files)); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	m.history(1, pause)
	m.settle()
	s.Stop()
	m.history(5, pause)
	if err := errors.Join(os.RemoveAll(files), os.CopyFS(files, os.DirFS(backup))); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	all := m.settle()
	m.check(all, 3)
	var missed uint64
	for _, e := range all {
		if e.Epoch < 3 || e.Transition == events.BecameLeader && e.Epoch == 3 {
			missed += e.Missed
		}
	}
	if missed == 0 {
		t.Errorf("nothing says that term 2 is missing:\n%v", words(all))
	}
}

// The stream is deleted while nothing happens: the log is made anew all the
// same, and tells of the leader.
func TestStreamDeletedWhileAllIsQuiet(t *testing.T) {
	t.Parallel()
	s := natsenv.Start(t)
	m := newTeam(t, on(t, s.URL()), "w", "a", "b")
	m.history(3, pause)
	m.settle()
	if err := s.JetStream(t).DeleteStream(withTimeout(t), events.DefaultStream); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() error {
		all, err := m.stored()
		if err == nil && len(all) != 2 {
			err = fmt.Errorf("the log says %v", words(all))
		}
		return err
	})
	m.history(2, pause)
	all := m.settle()
	m.check(all, 3)
	if first := all[0]; first.Epoch != 3 || first.Missed != 2 {
		t.Errorf("the new log begins with term %d and %d missed, want 3 and 2", first.Epoch, first.Missed)
	}
}

// The stream is full while five terms go by, until somebody gives it more room.
func TestStorageFull(t *testing.T) {
	t.Parallel()
	s := natsenv.Start(t)
	update := makeStream(t, s.JetStream(t), func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 6, jetstream.DiscardNew })
	m := newTeam(t, on(t, s.URL()), "w", "a", "b")
	m.history(2, pause)
	m.settle()
	m.history(5, pause)
	testenv.Eventually(t, patience, func() error {
		for _, r := range m.replicas {
			if err := r.recorder.Stats().LastError; !errors.Is(err, events.ErrFull) {
				return fmt.Errorf("%s: %w, want ErrFull", r.name, err)
			}
		}
		return nil
	})
	update(func(c *jetstream.StreamConfig) { c.MaxMsgs = -1 })
	m.check(m.settle(), 1)
}

// The right to publish is taken away while five terms go by, and given again.
func TestPermissionRevokedAndRestored(t *testing.T) {
	t.Parallel()
	user := func(deny ...string) *server.User {
		u := &server.User{Username: "bridge", Password: "x"}
		if len(deny) > 0 {
			u.Permissions = &server.Permissions{Publish: &server.SubjectPermission{Deny: deny}}
		}
		return u
	}
	var options *server.Options
	s := natsenv.Start(t, func(o *server.Options) {
		o.Users = []*server.User{user()}
		options = o
	})
	reload := func(u *server.User) {
		t.Helper()
		options = options.Clone()
		options.Users = []*server.User{u}
		if err := s.Embedded().ReloadOptions(options); err != nil {
			t.Fatal(err)
		}
	}
	m := newTeam(t, on(t, s.URL(), nats.UserInfo("bridge", "x")), "w", "a", "b")
	m.history(2, pause)
	m.settle()
	reload(user("leaderbridge.event.>"))
	m.history(5, pause)
	testenv.Eventually(t, patience, func() error {
		for _, r := range m.replicas {
			if err := r.recorder.Stats().LastError; !errors.Is(err, events.ErrForbidden) {
				return fmt.Errorf("%s: %w, want ErrForbidden", r.name, err)
			}
		}
		return nil
	})
	reload(user())
	m.check(m.settle(), 1)
}

// The stream's leader is killed in a cluster of three, again and again, while
// terms go by.
func TestStreamLeaderKilled(t *testing.T) {
	t.Parallel()
	servers := natsenv.StartProcesses(t, "", "")
	urls := fmt.Sprintf("%s,%s,%s", servers[0].URL(), servers[1].URL(), servers[2].URL())
	m := newTeam(t, on(t, urls), "w", "a", "b")
	m.history(1, pause)
	m.settle()
	js, err := jetstream.New(m.reader)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var leader string
		testenv.Eventually(t, patience, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			stream, err := js.Stream(ctx, events.DefaultStream)
			if err != nil {
				return err
			}
			if leader = stream.CachedInfo().Cluster.Leader; leader == "" {
				return errors.New("nobody leads the stream")
			}
			return nil
		})
		i := slices.IndexFunc(servers[:], func(p *natsenv.Process) bool { return p.Name() == leader })
		m.history(1, 0)
		servers[i].Kill(t)
		m.history(5, pause)
		servers[i].Restart(t)
		m.history(1, 0)
	}
	m.check(m.settle(), 1)
}

// The servers of a cluster are told to end in an orderly way, one after the
// other, while terms go by.
func TestLameDuck(t *testing.T) {
	t.Parallel()
	c := natsenv.StartCluster(t)
	m := newTeam(t, on(t, c.URLs()), "w", "a", "b")
	m.history(1, pause)
	m.settle()
	for range 2 {
		i := c.StreamLeader(t, events.DefaultStream)
		over := make(chan struct{})
		go func() {
			defer close(over)
			c.Server(i).LameDuck()
		}()
		m.history(5, pause)
		<-over
		m.history(1, pause)
		c.Restart(t, i)
	}
	m.check(m.settle(), 1)
}

// One and the same history gives one and the same log, whether one replica
// reports it, two or five, and whoever leads among them.
func TestLogDoesNotDependOnTheNumberOfReplicas(t *testing.T) {
	t.Parallel()
	var want []string
	for _, names := range [][]string{{"w"}, {"w", "a"}, {"w", "a", "b", "c", "v"}} {
		s := natsenv.Start(t)
		m := newTeam(t, on(t, s.URL()), names...)
		m.history(9, pause/4)
		s.Stop()
		m.history(4, pause/4)
		s.Restart(t)
		m.history(9, pause/4)
		all := m.settle()
		m.check(all, 1)
		got := ids(all)
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("with %d replicas the log is\n%q\nwant\n%q", len(names), got, want)
		}
	}
}

// The stream and the Lease are deleted, and every process that knew the number
// is gone: the leaders' bucket still knows it.
func TestStreamAndLeaseAndProcessesLost(t *testing.T) {
	t.Parallel()
	s := natsenv.Start(t)
	js := s.JetStream(t)
	t.Run("before", func(t *testing.T) {
		m := newTeam(t, on(t, s.URL()), "w", "a")
		m.history(3, pause)
		m.settle()
		kv, err := js.KeyValue(withTimeout(t), events.DefaultBucket)
		if err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, patience, func() error {
			entry, err := kv.Get(t.Context(), scheduler.KVKey())
			if err != nil {
				return err
			}
			last, err := events.Decode(nil, entry.Value())
			if err == nil && last.Epoch != 3 {
				err = fmt.Errorf("the bucket shows epoch %d", last.Epoch)
			}
			return err
		})
	})
	if err := js.DeleteStream(withTimeout(t), events.DefaultStream); err != nil {
		t.Fatal(err)
	}
	m := newTeam(t, on(t, s.URL()), "b", "c")
	m.uid, m.revision = 9, 100
	m.reign("b", "")
	all := m.settle()
	if first := all[0]; first.Transition != events.BecameLeader || first.Epoch != 4 || first.Missed != 3 {
		t.Errorf("the log that was made anew is\n%q", words(all))
	}
}
