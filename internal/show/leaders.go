package show

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Format is how output is written.
type Format string

// The formats.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// leader is who leads an election, for programs.
type leader struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Lease     string `json:"lease"`
	// Leader is empty while nobody leads.
	Leader         string `json:"leader"`
	PreviousLeader string `json:"previousLeader,omitempty"`
	Epoch          uint64 `json:"epoch"`
	// Since is when the leader began, or the last one ended.
	Since      time.Time         `json:"since"`
	Transition events.Transition `json:"transition"`
	Reason     events.Reason     `json:"reason"`
	// LeaseLeftSeconds is how long the election stays taken at most, if nobody
	// renews it from now on.
	LeaseLeftSeconds     *float64 `json:"leaseLeftSeconds,omitempty"`
	LeaseDurationSeconds *int     `json:"leaseDurationSeconds,omitempty"`
	LeaderlessMillis     *int64   `json:"leaderlessMillis,omitempty"`
	Missed               uint64   `json:"missed"`
	Reporter             string   `json:"reporter"`
}

func leaderOf(e events.Event, now time.Time) leader {
	l := leader{
		Cluster: e.Election.Cluster, Namespace: e.Election.Namespace, Lease: e.Election.Lease,
		Leader: e.Leader, PreviousLeader: e.PreviousLeader, Epoch: e.Epoch, Since: e.Time,
		Transition: e.Transition, Reason: e.Reason,
		LeaseDurationSeconds: e.LeaseDurationSeconds, LeaderlessMillis: e.LeaderlessMillis,
		Missed: e.Missed, Reporter: e.Reporter,
	}
	if left, known := leaseLeft(e, now); known {
		seconds := left.Round(time.Millisecond).Seconds()
		l.LeaseLeftSeconds = &seconds
	}
	return l
}

// board is the last event of each election.
type board map[events.Election]events.Event

func (b board) sorted() []events.Event {
	list := make([]events.Event, 0, len(b))
	for _, e := range b {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b events.Event) int {
		return cmp.Or(cmp.Compare(a.Election.Cluster, b.Election.Cluster),
			cmp.Compare(a.Election.Namespace, b.Election.Namespace),
			cmp.Compare(a.Election.Lease, b.Election.Lease))
	})
	return list
}

// Leaders prints who leads what by the log as it is now. It fails if the log
// knows nothing of an election that was asked for by its name, and if nothing
// is heard from it for as long as patience lasts.
func Leaders(ctx context.Context, log *events.Log, choice Selection, format Format, patience time.Duration, screen *Screen) error {
	b := board{}
	err := feed(ctx, log, events.FollowOptions{Filter: choice.filter()}, patience, func(s events.FeedState) error {
		if s.Current {
			return errEnough
		}
		return hopeless(s)
	}, func(entry events.Entry) error {
		if entry.Err == nil && choice.has(entry.Event.Election) {
			b[entry.Event.Election] = entry.Event
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the leaders: %w", err)
	}
	list := b.sorted()
	have := make([]events.Election, len(list))
	for i, e := range list {
		have[i] = e.Election
	}
	missing := choice.missing(have)
	if len(list) == 0 && missing != nil {
		return missing
	}
	text, err := renderLeaders(list, format, screen, time.Now())
	if err != nil {
		return err
	}
	if err := screen.print(text); err != nil {
		return err
	}
	return missing
}

func renderLeaders(list []events.Event, format Format, screen *Screen, now time.Time) (string, error) {
	switch format {
	case JSON, YAML:
		leaders := make([]leader, len(list))
		for i, e := range list {
			leaders[i] = leaderOf(e, now)
		}
		text, err := json.MarshalIndent(leaders, "", "  ")
		if err != nil {
			return "", fmt.Errorf("encode the leaders: %w", err)
		}
		if format == JSON {
			return string(text) + "\n", nil
		}
		text, err = yaml.JSONToYAML(text)
		return string(text), err
	default:
		if len(list) == 0 {
			return "no elections in the log\n", nil
		}
		width, _ := screen.size()
		g, rows := leadersTable(list, format, width, now)
		return g.text(rows), nil
	}
}

// leadersTable is the table for people.
func leadersTable(list []events.Event, format Format, width int, now time.Time) (grid, [][]cell) {
	columns := []column{
		{title: "ELECTION", least: 10}, {title: "LEADER", least: 10}, {title: "EPOCH", right: true},
		{title: "SINCE", right: true}, {title: "LEASE LEFT", right: true}, {title: "REASON"},
	}
	if format == Wide {
		columns = append(columns, column{title: "PREVIOUS", least: 10}, column{title: "LEADERLESS", right: true},
			column{title: "LAST EVENT"}, column{title: "REPORTED BY", least: len("REPORTED BY")})
	}
	one := oneCluster(list)
	rows := make([][]cell, len(list))
	for i, e := range list {
		rows[i] = leaderRow(e, format, one, now)
	}
	g := layout(columns, rows, width)
	if format == Wide && g.width() > width {
		// Its lines wrap in any case, so that nothing is cut in vain.
		g = layout(columns, rows, 0)
	}
	return g, rows
}

func leaderRow(e events.Event, format Format, oneCluster bool, now time.Time) []cell {
	leading := cell{clean(e.Leader), styleGood}
	if e.Leader == "" {
		leading = cell{"nobody", styleBad}
	}
	row := []cell{
		{text: name(e.Election, oneCluster)}, leading, {text: strconv.FormatUint(e.Epoch, 10)},
		{text: age(now, e.Time)}, {text: leaseLeftText(e, now)}, reasonCell(e),
	}
	if format == Wide {
		row = append(row, cell{text: orDash(clean(e.PreviousLeader))}, cell{text: millis(e.LeaderlessMillis)},
			cell{text: string(e.Transition)}, cell{text: clean(e.Reporter), style: styleDim})
	}
	return row
}

// oneCluster tells whether all events are of one cluster, or there are none.
func oneCluster(list []events.Event) bool {
	return !slices.ContainsFunc(list, func(e events.Event) bool { return e.Election.Cluster != list[0].Election.Cluster })
}

// reasonCell warns of what nobody wished for.
func reasonCell(e events.Event) cell {
	c := cell{text: string(e.Reason)}
	switch e.Reason {
	case events.Expired, events.RenewDeadline, events.Unhealthy, events.Deleted, events.Superseded, events.TakenOver:
		c.style = styleWarn
	default:
	}
	if e.Missed > 0 {
		c.text += fmt.Sprintf(" (+%d missed)", e.Missed)
	}
	return c
}
