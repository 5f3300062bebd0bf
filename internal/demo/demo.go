package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/natsconn"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

const (
	// leaseDuration is short, so that a crash does not bore anybody.
	leaseDuration = 3 * time.Second
	// limit bounds every wait: something is wrong after it.
	limit = 30 * time.Second
	// cluster sets the demo's events apart on a NATS that others use too.
	cluster = "demo"
)

// Options say what the demo runs on and how long.
type Options struct {
	// Rounds is how many hand-overs to show; zero goes on until ctx ends.
	Rounds int
	// Pause is the time between two rounds.
	Pause time.Duration
	// JSON writes each received CloudEvent as one line, and nothing else.
	JSON bool
	// Dir holds the NATS server's files and the candidates' logs, and stays;
	// empty for a temporary one that is removed.
	Dir string
	// NATS is an existing server; without URLs and a context the demo runs
	// its own. NATSEnv are the same as variables for the candidates.
	NATS    natsconn.Options
	NATSEnv []string
	// LockArgs make the candidates stand on something else than a NATS key.
	LockArgs []string
	// Election is the election's namespace and name.
	Namespace, Lease string
	Out              io.Writer
	Logger           *slog.Logger
}

// action is a way to take the leadership from a candidate.
type action struct{ name, label, says string }

var actions = []action{
	{"step-down", "asked to step down", "is asked to step down"},
	{"stop", "stopped (SIGTERM)", "is stopped (SIGTERM)"},
	{"kill", "killed (SIGKILL)", "is killed (SIGKILL)"},
}

type show struct {
	opts     Options
	conn     *natsconn.Conn
	logAt    events.Options
	election events.Election
	cast     []*candidate
	arrivals chan arrival
	timeline timeline
	took     map[string][]time.Duration
	work     workplace
	leader   string
}

// Run shows the demo until the rounds are over or ctx ends. Nothing is left
// behind: no process, and no directory that it made.
func Run(ctx context.Context, o Options) (err error) {
	dir := o.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "leaderbridge-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	where := "NATS at the given address"
	if len(o.NATS.URLs) == 0 && o.NATS.Context == "" {
		server, err := startServer(dir)
		if err != nil {
			return err
		}
		defer func() { server.Shutdown(); server.WaitForShutdown() }()
		o.NATS.URLs, o.NATSEnv = []string{server.ClientURL()}, []string{"LEADERBRIDGE_NATS_URL=" + server.ClientURL()}
		where = "a NATS server of its own"
	}
	conn, err := natsconn.Connect(ctx, o.NATS, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.WaitConnected(ctx); err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	s := &show{
		opts: o, conn: conn,
		election: events.Election{Cluster: cluster, Namespace: o.Namespace, Lease: o.Lease},
		arrivals: make(chan arrival, 1024),
		timeline: timeline{out: o.Out, begun: time.Now()},
		took:     map[string][]time.Duration{},
	}
	s.logAt.Domain, s.logAt.APIPrefix = conn.JetStreamAt()
	s.work.show = s
	if !o.JSON {
		s.timeline.header(fmt.Sprintf("Three candidates and two workers of the election %s,\n%s. Ctrl-C ends it.", s.election, where))
	}
	atWork, goHome := context.WithCancel(ctx)
	defer func() {
		goHome()
		err = errors.Join(err, s.work.close())
		for _, c := range s.exits() {
			err = errors.Join(err, c.end(syscall.SIGTERM))
		}
		if !o.JSON && err == nil {
			s.timeline.summary(s.took, s.work.idle)
		}
	}()
	if err := s.work.open(atWork, dir); err != nil {
		return err
	}
	err = s.play(ctx, dir)
	if errors.Is(err, errNobody) {
		err = fmt.Errorf("%w; the last that candidate %s said: %s", err, s.cast[0].name, lastLine(logFile(dir, s.cast[0].name)))
	}
	return err
}

// errNobody is a wait for a leader that came to nothing.
var errNobody = errors.New("there was no new leader")

// note shows people what happens beside the log.
func (s *show) note(epoch uint64, what, who, why string) {
	if !s.opts.JSON {
		s.timeline.row(time.Now(), epoch, what, who, why)
	}
}

func (s *show) play(ctx context.Context, dir string) error {
	stop, err := s.follow(ctx)
	if err != nil {
		return err
	}
	defer stop()
	args := []string{
		"--cluster", cluster, "--lease-lock-namespace", s.election.Namespace, "--lease-lock-name", s.election.Lease,
		"--lease-duration", leaseDuration.String(), "--renew-deadline", "2s", "--retry-period", "500ms", "--http-addr", "",
	}
	args = append(args, s.opts.LockArgs...)
	for _, name := range []string{"alpha", "bravo", "charlie"} {
		c := &candidate{name: name, start: command(dir, name, s.opts.NATSEnv, args)}
		s.cast = append(s.cast, c)
		if err := c.run(); err != nil {
			return err
		}
	}
	leader, err := s.next(ctx, 0)
	for round := 1; err == nil && (s.opts.Rounds == 0 || round <= s.opts.Rounds); round++ {
		if err = s.pause(ctx); err == nil {
			leader, err = s.round(ctx, actions[(round-1)%len(actions)], leader)
		}
	}
	if ctx.Err() != nil {
		return nil // Ctrl-C is how an endless demo ends
	}
	return err
}

// exits returns the candidates with the leader last, so that nobody takes over
// from it at the end of the show.
func (s *show) exits() []*candidate {
	i := slices.IndexFunc(s.cast, func(c *candidate) bool { return c.id == s.leader })
	if i < 0 {
		return s.cast
	}
	return append(slices.Delete(slices.Clone(s.cast), i, i+1), s.cast[i])
}

// next waits for the new leader of an epoch after the given one.
func (s *show) next(ctx context.Context, after uint64) (arrival, error) {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		select {
		case a := <-s.arrivals:
			if a.event.Transition == events.NewLeader && a.event.Epoch > after {
				s.leader = a.event.Leader
				return a, nil
			}
		case <-timeout.C:
			return arrival{}, fmt.Errorf("%w within %s", errNobody, limit)
		case <-ctx.Done():
			return arrival{}, ctx.Err()
		}
	}
}

// round takes the leadership away, waits for the next leader, and starts what
// was stopped again.
func (s *show) round(ctx context.Context, a action, leader arrival) (arrival, error) {
	var victim *candidate
	for _, c := range s.cast {
		if c.id == leader.event.Leader {
			victim = c
		}
	}
	if victim == nil {
		return leader, fmt.Errorf("%s leads, which is none of the candidates: is another demo running?", leader.event.Leader)
	}
	if !s.opts.JSON {
		s.timeline.action(a, victim.id)
	}
	begun := time.Now()
	ended := make(chan error, 1)
	switch a.name {
	case "step-down":
		request, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		_, err := s.conn.RequestWithContext(request, s.election.RequestSubject(events.DefaultPrefix, events.StepDownVerb), nil)
		if err != nil {
			return leader, fmt.Errorf("ask %s to step down: %w", victim.id, err)
		}
		ended <- nil
	case "stop":
		go func() { ended <- victim.end(syscall.SIGTERM) }()
	case "kill":
		go func() { ended <- victim.end(syscall.SIGKILL) }()
	}
	next, err := s.next(ctx, leader.event.Epoch)
	if gone := <-ended; err == nil {
		err = gone
	}
	if err != nil {
		return leader, err
	}
	took := next.at.Sub(begun)
	s.took[a.name] = append(s.took[a.name], took)
	if !s.opts.JSON {
		s.timeline.handover(took)
	}
	if victim.cmd == nil {
		err = victim.run()
	}
	return next, err
}

func (s *show) pause(ctx context.Context) error {
	t := time.NewTimer(s.opts.Pause)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
