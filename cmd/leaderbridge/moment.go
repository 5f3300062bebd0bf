package main

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// moment is a flag for a time in the past, given as a time or as how long ago.
type moment struct {
	text string
	ago  time.Duration
	at   time.Time
}

func (m *moment) String() string { return m.text }
func (m *moment) Type() string   { return "time" }

func (m *moment) Set(s string) error {
	set := moment{text: s}
	var err error
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		set.ago = time.Duration(n) * 24 * time.Hour
		if n > 100_000 {
			err = errors.New("too far back")
		}
	} else if set.ago, err = time.ParseDuration(s); err != nil {
		set.at, err = time.Parse(time.RFC3339, s)
	}
	if err != nil {
		return errors.New("must be a duration such as 90s, 24h or 7d, or a time such as 2026-01-31T12:00:00Z")
	}
	if set.ago < 0 {
		return errors.New("must not lie in the future")
	}
	*m = set
	return nil
}

// before returns the moment, seen from now; zero if none was given.
func (m *moment) before(now time.Time) time.Time {
	switch {
	case m.text == "":
		return time.Time{}
	case m.at.IsZero():
		return now.Add(-m.ago)
	default:
		return m.at
	}
}
