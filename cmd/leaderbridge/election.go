package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/internal/show"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// parseElection reads NAMESPACE/NAME or CLUSTER/NAMESPACE/NAME. Without a
// cluster that part stays empty, and * is empty too: both stand for any.
func parseElection(s string) (events.Election, error) {
	var e events.Election
	switch parts := strings.Split(s, "/"); {
	case strings.Contains("/"+s+"/", "//"), len(parts) < 2, len(parts) > 3:
		return e, fmt.Errorf("election %q: want NAMESPACE/NAME or CLUSTER/NAMESPACE/NAME", s)
	case len(parts) == 2:
		e.Namespace, e.Lease = parts[0], parts[1]
	default:
		e.Cluster, e.Namespace, e.Lease = parts[0], parts[1], parts[2]
	}
	legal := e
	for _, part := range []struct{ given, checked *string }{
		{&e.Cluster, &legal.Cluster}, {&e.Namespace, &legal.Namespace}, {&e.Lease, &legal.Lease},
	} {
		if *part.given == "*" {
			*part.given = ""
		}
		if *part.given == "" {
			*part.checked = "any"
		}
	}
	if err := legal.Validate(); err != nil {
		return e, fmt.Errorf("election %q: %w", s, err)
	}
	return e, nil
}

// parseSelection reads a choice of elections. What is wrong with it is bad
// input, one line for each fault.
func parseSelection(args []string) (show.Selection, error) {
	var (
		choice show.Selection
		faults []error
	)
	for _, arg := range args {
		e, err := parseElection(arg)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		choice = append(choice, e)
	}
	return choice, cli.Usage(errors.Join(faults...))
}
