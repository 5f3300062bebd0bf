package natsenv_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func stream(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: replicas, Storage: jetstream.FileStorage}
}

// publish tries until the message is stored: a stream has no leader for a
// moment after it was made or its leader went.
func publish(t *testing.T, js jetstream.JetStream, data string) {
	t.Helper()
	testenv.Eventually(t, 30*time.Second, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := js.Publish(ctx, "s.x", []byte(data), jetstream.WithMsgID(data))
		return err
	})
}

func wantLast(t *testing.T, js jetstream.JetStream, data string, seq uint64) {
	t.Helper()
	testenv.Eventually(t, 30*time.Second, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		s, err := js.Stream(ctx, "S")
		if err != nil {
			return err
		}
		msg, err := s.GetLastMsgForSubject(ctx, "s.x")
		if err != nil {
			return err
		}
		if string(msg.Data) != data || msg.Sequence != seq {
			return fmt.Errorf("last message: %q at %d, want %q at %d", msg.Data, msg.Sequence, data, seq)
		}
		return nil
	})
}

func TestServerKeepsItsPortAndFilesAcrossRestarts(t *testing.T) {
	s := natsenv.Start(t)
	js := s.JetStream(t)
	if _, err := js.CreateStream(t.Context(), stream(1)); err != nil {
		t.Fatal(err)
	}
	before := s.URL()
	for n := range 3 {
		publish(t, js, strconv.Itoa(n))
		s.Stop()
		if s.Running() {
			t.Error("running after Stop")
		}
		s.Restart(t)
		if s.URL() != before {
			t.Errorf("URL after the restart: %s, want %s", s.URL(), before)
		}
		// The same connection, which has reconnected, sees the old message.
		wantLast(t, js, strconv.Itoa(n), uint64(n)+1)
	}
}

func TestOptionsReachTheServer(t *testing.T) {
	s := natsenv.Start(t, func(o *server.Options) { o.Authorization = "sesame" })
	_, err := nats.Connect(s.URL())
	if !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("connect without the token: %v, want %v", err, nats.ErrAuthorization)
	}
	s.Connect(t, nats.Token("sesame"))
}

func TestLameDuckTellsClients(t *testing.T) {
	s := natsenv.Start(t)
	var told atomic.Bool
	s.Connect(t, nats.LameDuckModeHandler(func(*nats.Conn) { told.Store(true) }))
	s.LameDuck()
	if s.Running() {
		t.Error("running after LameDuck")
	}
	testenv.Eventually(t, 5*time.Second, func() error {
		if !told.Load() {
			return errors.New("the client was not told")
		}
		return nil
	})
}

func TestClusterSurvivesTheLossOfAStreamLeader(t *testing.T) {
	c := natsenv.StartCluster(t)
	js := c.JetStream(t)
	if _, err := js.CreateStream(t.Context(), stream(3)); err != nil {
		t.Fatal(err)
	}
	publish(t, js, "a")
	lost := c.StreamLeader(t, "S")
	c.Stop(lost)
	if next := c.StreamLeader(t, "S"); next == lost {
		t.Errorf("server %d leads the stream after it was stopped", next)
	}
	publish(t, js, "b")
	wantLast(t, js, "b", 2)
	c.Restart(t, lost)
	publish(t, js, "c")
	wantLast(t, js, "c", 3)
}

func TestProcessLosesNothingThatWasAcknowledgedWhenKilled(t *testing.T) {
	p := natsenv.StartProcess(t, "jetstream { sync_interval: always }")
	js := p.JetStream(t)
	if _, err := js.CreateStream(t.Context(), stream(1)); err != nil {
		t.Fatal(err)
	}
	before := p.URL()
	publish(t, js, "a")
	p.Kill(t)
	p.Kill(t) // A second kill changes nothing.
	p.Restart(t)
	if p.URL() != before {
		t.Errorf("URL after the restart: %s, want %s", p.URL(), before)
	}
	wantLast(t, js, "a", 1)

	p.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := js.Publish(ctx, "s.x", nil); err == nil {
		t.Error("publish to a paused server: no error")
	}
	p.Resume(t)
	// The message that nobody waited for was stored all the same.
	wantLast(t, js, "", 2)
}

func TestProcessClusterSurvivesAKillOfTheStreamLeader(t *testing.T) {
	processes := natsenv.StartProcesses(t, "", "")
	js := processes[0].JetStream(t)
	s, err := js.CreateStream(t.Context(), stream(3))
	if err != nil {
		t.Fatal(err)
	}
	publish(t, js, "a")
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		if p.Name() == info.Cluster.Leader {
			p.Kill(t)
			publish(t, js, "b")
			wantLast(t, js, "b", 2)
			p.Restart(t)
			publish(t, js, "c")
			wantLast(t, js, "c", 3)
			return
		}
	}
	t.Fatalf("no process is the stream's leader %q", info.Cluster.Leader)
}
