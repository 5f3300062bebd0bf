package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Selection is a choice of elections. An empty part of one stands for any; an
// empty selection is all elections.
type Selection []events.Election

// filter is what the server sends: the one choice, or everything.
func (s Selection) filter() events.Election {
	if len(s) == 1 {
		return s[0]
	}
	return events.Election{}
}

func (s Selection) has(e events.Election) bool {
	return len(s) == 0 || slices.ContainsFunc(s, func(want events.Election) bool { return matches(want, e) })
}

func matches(want, e events.Election) bool {
	return (want.Cluster == "" || want.Cluster == e.Cluster) &&
		(want.Namespace == "" || want.Namespace == e.Namespace) &&
		(want.Lease == "" || want.Lease == e.Lease)
}

// missing names the choices of one election that none of those given is.
func (s Selection) missing(have []events.Election) error {
	var absent []string
	for _, want := range s {
		if want.Namespace == "" || want.Lease == "" {
			continue
		}
		if !slices.ContainsFunc(have, func(e events.Election) bool { return matches(want, e) }) {
			absent = append(absent, strings.TrimPrefix(want.Cluster+"/"+want.String(), "/"))
		}
	}
	if len(absent) == 0 {
		return nil
	}
	return fmt.Errorf("the log knows nothing of %s", strings.Join(absent, ", "))
}

// name is an election as people write it: the cluster is left out where it
// goes without saying.
func name(e events.Election, oneCluster bool) string {
	if oneCluster {
		return e.String()
	}
	return e.Cluster + "/" + e.String()
}
