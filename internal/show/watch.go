package show

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Times of a watch: how often ages on the screen move on, and how long changes
// are gathered before they are drawn.
const (
	tick   = time.Second
	settle = 50 * time.Millisecond
)

// update is what the follower tells the watch: an event, or the feed's state.
type update struct {
	event events.Event
	state *events.FeedState
}

// WatchLeaders shows who leads what until ctx ends, which is no error. On a
// terminal it redraws the table; elsewhere it prints the table and then each
// election that changes. It waits for a log that is not there.
func WatchLeaders(ctx context.Context, log *events.Log, choice Selection, format Format, screen *Screen, logger *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	updates := make(chan update)
	send := func(u update) {
		select {
		case updates <- u:
		case <-ctx.Done():
		}
	}
	followed := make(chan error, 1)
	var follower sync.WaitGroup
	follower.Go(func() {
		followed <- log.Follow(ctx, events.FollowOptions{
			Filter:  choice.filter(),
			OnState: func(s events.FeedState) { send(update{state: &s}) },
		}, func(entry events.Entry) error {
			if entry.Err == nil && choice.has(entry.Event.Election) {
				send(update{event: entry.Event})
			}
			return nil
		})
	})
	w := &watch{board: board{}, format: format, screen: screen, logger: logger}
	err := w.run(ctx, updates, followed)
	cancel()
	follower.Wait()
	if err == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("watch the leaders: %w", err)
}

// watch is the state of one WatchLeaders, owned by its goroutine.
type watch struct {
	board  board
	format Format
	screen *Screen
	logger *slog.Logger

	started bool // the feed was current once
	current bool
	since   time.Time // of current
	err     error     // why it is not current
	grid    grid      // of the rows that are printed one by one
	one     bool      // whether those leave out the cluster
}

func (w *watch) run(ctx context.Context, updates <-chan update, followed <-chan error) error {
	w.since = time.Now()
	draws := w.screen.terminal() && (w.format == Table || w.format == Wide)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var settled <-chan time.Time
	for {
		select {
		case u := <-updates:
			printed, err := w.take(u, !draws)
			if err != nil {
				return err
			}
			if !printed && draws && settled == nil {
				settled = time.After(settle)
			}
		case <-ticker.C:
			if draws && settled == nil {
				settled = time.After(0)
			}
		case <-settled:
			settled = nil
			if err := w.draw(time.Now()); err != nil {
				return err
			}
		case err := <-followed:
			return err
		case <-ctx.Done():
			return <-followed
		}
	}
}

// take notes an update, and prints it if that is how this watch shows changes.
func (w *watch) take(u update, prints bool) (printed bool, err error) {
	if u.state != nil {
		return w.takeState(*u.state, prints)
	}
	before, known := w.board[u.event.Election]
	w.board[u.event.Election] = u.event
	if !prints || !w.started {
		return false, nil
	}
	if known && before.Leader == u.event.Leader && before.Epoch == u.event.Epoch && before.Reason == u.event.Reason {
		return false, nil // became-leader and new-leader are one change
	}
	return true, w.printOne(u.event, time.Now())
}

func (w *watch) takeState(s events.FeedState, prints bool) (printed bool, err error) {
	w.current, w.err, w.since = s.Current, s.Err, time.Now()
	if errors.Is(s.Err, events.ErrLogRewound) {
		w.board = board{} // all that the log holds now comes again
	}
	switch {
	case s.Current && !w.started:
		w.started = true
		if prints {
			return true, w.printAll(w.since)
		}
	case prints && !s.Current:
		w.logger.Warn("what is shown may be out of date", "cause", s.Err)
	case prints:
		w.logger.Warn("what is shown is current again")
	}
	return false, nil
}

// printAll prints all elections, as the beginning of a list that grows.
func (w *watch) printAll(now time.Time) error {
	list := w.board.sorted()
	if w.format == JSON || w.format == YAML {
		for _, e := range list {
			if err := w.printOne(e, now); err != nil {
				return err
			}
		}
		return nil
	}
	width, _ := w.screen.size()
	g, rows := leadersTable(list, w.format, width, now)
	w.grid, w.one = g.stretch(longWidth), oneCluster(list) // for the rows to come
	return w.screen.print(w.grid.text(rows))
}

func (w *watch) printOne(e events.Event, now time.Time) error {
	if w.format == JSON || w.format == YAML {
		text, err := json.Marshal(leaderOf(e, now))
		if err != nil {
			return fmt.Errorf("encode a leader: %w", err)
		}
		if w.format == JSON {
			return w.screen.print(string(text) + "\n")
		}
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fmt.Errorf("encode a leader: %w", err)
		}
		return w.screen.print("---\n" + string(text))
	}
	if w.one && !oneCluster(w.board.sorted()) {
		w.one = false // from now on the cluster does not go without saying
	}
	return w.screen.print(w.grid.row(leaderRow(e, w.format, w.one, now)))
}

// draw shows as many elections as fit, and below them how things stand.
func (w *watch) draw(now time.Time) error {
	width, height := w.screen.size()
	list := w.board.sorted()
	var b strings.Builder
	// One line each for the header and the status, one for the cursor.
	room := max(height-3, 1)
	shown := list[:min(room, len(list))]
	if len(shown) > 0 {
		g, rows := leadersTable(shown, w.format, width, now)
		b.WriteString(g.text(rows))
	}
	b.WriteString(w.status(list, len(list)-len(shown), now))
	return w.screen.redraw(b.String(), width)
}

func (w *watch) status(list []events.Event, hidden int, now time.Time) string {
	if !w.current {
		cause := "reading the log"
		if w.err != nil {
			cause = clean(brief(w.err))
		}
		if !w.started {
			return styleWarn.Styled("waiting for the log: "+cause) + "\n"
		}
		return styleBad.Styled(fmt.Sprintf("out of date for %s: %s", age(now, w.since), cause)) + "\n"
	}
	vacant := 0
	for _, e := range list {
		if e.Leader == "" {
			vacant++
		}
	}
	text := fmt.Sprintf("%d elections, %d without a leader", len(list), vacant)
	if hidden > 0 {
		text += fmt.Sprintf(", %d more than fit here", hidden)
	}
	return styleDim.Styled(text) + "\n"
}
