package show

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Query says which events are shown.
type Query struct {
	// Choice and Types restrict what is shown; empty is everything.
	Choice Selection
	Types  []events.Transition
	// Since is the time from which events in the log are shown; zero is the
	// log's beginning.
	Since time.Time
	// Last is how many of those are shown at most, the latest ones; zero is no
	// limit.
	Last int
	// Follow goes on with new events until the context ends.
	Follow bool
	// Patience ends a query that does not follow when nothing is heard for so
	// long; zero waits.
	Patience time.Duration
}

func (q Query) has(e events.Event) bool {
	return q.Choice.has(e.Election) && (len(q.Types) == 0 || slices.Contains(q.Types, e.Transition))
}

// firstWindow is how many messages at the end of the log are looked through
// first for the last N events, times N; each further window is as many times
// longer as the factor says.
const (
	firstWindow  = 4
	windowFactor = 16
)

// errTooFew ends a feed that began too late to deliver N events.
var errTooFew = errors.New("too few events")

// Events prints the log: first what the query says of the past, then, if it
// says so, each event as it comes until ctx ends, which is then no error.
// JSON is one CloudEvent a line. What in the log is no event, or is gone from
// it, is told to the logger.
func Events(ctx context.Context, log *events.Log, q Query, format Format, screen *Screen, logger *slog.Logger) error {
	p := &eventPrinter{format: format, screen: screen}
	for window := firstWindow * uint64(max(q.Last, 0)); ; window *= windowFactor { // #nosec G115 -- not negative
		start, whole, err := q.start(ctx, log, window)
		if err != nil {
			return fmt.Errorf("show the log: %w", err)
		}
		if q.Follow {
			q.Patience = 0
		}
		r := &reading{q: q, whole: whole, printer: p, logger: logger}
		err = r.run(ctx, log, start)
		switch {
		case errors.Is(err, errTooFew):
			continue
		case err == nil, q.Follow && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
			return nil
		default:
			return fmt.Errorf("show the log: %w", err)
		}
	}
}

// start says where to begin so that the last N events are among what follows,
// probably; whole is true if nothing before could matter.
func (q Query) start(ctx context.Context, log *events.Log, window uint64) (start events.Start, whole bool, err error) {
	switch {
	case !q.Since.IsZero():
		return events.FromTime(q.Since), true, nil
	case q.Last == 0 || len(q.Choice) == 1 && q.Choice[0].Lease != "":
		// The server finds the events of one election by itself.
		return events.FromSequence(1), true, nil
	}
	first, last, err := log.Bounds(ctx)
	switch {
	case err != nil && q.Follow:
		// It may come yet, and until then there is nothing to leave out.
		return events.FromSequence(1), true, nil
	case err != nil:
		return events.Start{}, false, err
	case last < window || last-window < first:
		return events.FromSequence(first), true, nil
	default:
		return events.FromSequence(last - window + 1), false, nil
	}
}

// reading is one run through the log.
type reading struct {
	q       Query
	whole   bool
	printer *eventPrinter
	logger  *slog.Logger

	past []events.Event // what is to be printed once the end is reached
	live bool
}

func (r *reading) run(ctx context.Context, log *events.Log, start events.Start) error {
	return feed(ctx, log, events.FollowOptions{Filter: r.q.Choice.filter(), From: start}, r.q.Patience, r.state, r.entry)
}

// state handles what the feed says of itself; an error ends the run.
func (r *reading) state(s events.FeedState) error {
	switch {
	case s.Current && !r.live:
		if !r.whole && len(r.past) < r.q.Last {
			return errTooFew
		}
		if n := len(r.past) - r.q.Last; r.q.Last > 0 && n > 0 {
			r.past = r.past[n:]
		}
		if err := r.printer.past(r.past); err != nil {
			return err
		}
		r.past, r.live = nil, true
		if !r.q.Follow {
			return errEnough
		}
	case s.Current:
		r.logger.Warn("the log is read again")
	case r.q.Follow && errors.Is(s.Err, events.ErrLogRewound):
		r.logger.Warn("the log was made anew or has lost its end, and is shown from its beginning")
	case r.q.Follow:
		r.logger.Warn("the log cannot be read now, trying on", "cause", s.Err)
	default:
		return hopeless(s)
	}
	return nil
}

func (r *reading) entry(entry events.Entry) error {
	if entry.Gap {
		r.logger.Warn("events before this one were removed from the log before they could be read", "sequence", entry.Seq)
	}
	switch {
	case entry.Err != nil:
		r.logger.Warn("a message in the log is no event", "error", entry.Err)
	case !r.q.has(entry.Event):
	case r.live:
		return r.printer.live(entry.Event)
	default:
		r.past = append(r.past, entry.Event)
		// One at a time would move all of them each time.
		if n := len(r.past) - r.q.Last; r.q.Last > 0 && n >= r.q.Last {
			r.past = append(r.past[:0], r.past[n:]...)
		}
	}
	return nil
}

// eventPrinter prints events one after the other.
type eventPrinter struct {
	format Format
	screen *Screen

	grid grid
	one  bool // leave out the cluster
	long bool // show the wall clock's time
}

// longWidth is the width from which there is room for the time beside the age.
const longWidth = 120

// past prints what has been, and lays the table out for what comes.
func (p *eventPrinter) past(list []events.Event) error { return p.pastAt(list, time.Now()) }

func (p *eventPrinter) pastAt(list []events.Event, now time.Time) error {
	if p.format == JSON || p.format == YAML {
		for _, e := range list {
			if err := p.live(e); err != nil {
				return err
			}
		}
		return nil
	}
	width, _ := p.screen.size()
	p.one = oneCluster(list)
	p.long = width == 0 || width >= longWidth
	rows := make([][]cell, len(list))
	for i, e := range list {
		rows[i] = p.row(e, now)
	}
	p.grid = layout(p.columns(), rows, width)
	if width == 0 {
		width = longWidth // for the rows to come, which are never shortened
	}
	p.grid = p.grid.stretch(width)
	return p.screen.print(p.grid.text(rows))
}

// live prints one event.
func (p *eventPrinter) live(e events.Event) error {
	switch p.format {
	case JSON, YAML:
		_, text, err := events.Encode(e, events.Structured)
		if err != nil {
			return err
		}
		if p.format == JSON {
			return p.screen.print(string(text) + "\n")
		}
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
		return p.screen.print("---\n" + string(text))
	default:
		return p.screen.print(p.grid.row(p.row(e, time.Now())))
	}
}

func (p *eventPrinter) columns() []column {
	columns := []column{{title: "AGE", right: true, reserve: len("23h59m")}}
	if p.long {
		columns = append(columns, column{title: "TIME"})
	}
	columns = append(columns, column{title: "ELECTION", least: 10}, column{title: "EPOCH", right: true},
		column{title: "EVENT", reserve: len(events.StoppedLeading)}, column{title: "WHO", least: 10},
		column{title: "REASON", reserve: len(events.RenewDeadline)})
	if p.format == Wide {
		columns = append(columns, column{title: "LEADERLESS", right: true}, column{title: "SEEN BY"}, column{title: "REPORTED BY", least: len("REPORTED BY")})
	}
	return columns
}

func (p *eventPrinter) row(e events.Event, now time.Time) []cell {
	cells := []cell{{text: age(now, e.Time), style: styleDim}}
	if p.long {
		cells = append(cells, cell{text: e.Time.Local().Format("01-02 15:04:05.000")})
	}
	style := styleGood
	if e.Transition == events.StoppedLeading {
		style = styleBad
	}
	cells = append(cells, cell{text: name(e.Election, p.one)}, cell{text: strconv.FormatUint(e.Epoch, 10)},
		cell{string(e.Transition), style}, cell{text: clean(e.Who())}, reasonCell(e))
	if p.format == Wide {
		cells = append(cells, cell{text: millis(e.LeaderlessMillis)}, cell{text: string(e.Perspective)}, cell{text: clean(e.Reporter), style: styleDim})
	}
	return cells
}
