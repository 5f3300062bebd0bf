// Command queries tells what PromQL queries ask for. It reads a JSON array of
// queries on standard input and writes an array of the same length: for each
// query the names of its metrics and of the labels it matches, groups or joins
// by. A query that does not parse is an error.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// uses is what one query asks for.
type uses struct {
	Metrics []string `json:"metrics"`
	Labels  []string `json:"labels"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "queries:", err)
		os.Exit(1)
	}
}

func run() error {
	var queries []string
	if err := json.NewDecoder(os.Stdin).Decode(&queries); err != nil {
		return err
	}
	answers := make([]uses, len(queries))
	for i, query := range queries {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
		if err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		var u uses
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			switch n := node.(type) {
			case *parser.VectorSelector:
				for _, m := range n.LabelMatchers {
					if m.Name == labels.MetricName {
						u.Metrics = append(u.Metrics, m.Value)
					} else {
						u.Labels = append(u.Labels, m.Name)
					}
				}
			case *parser.AggregateExpr:
				u.Labels = append(u.Labels, n.Grouping...)
			case *parser.BinaryExpr:
				if n.VectorMatching != nil {
					u.Labels = append(u.Labels, n.VectorMatching.MatchingLabels...)
					u.Labels = append(u.Labels, n.VectorMatching.Include...)
				}
			}
			return nil
		})
		for _, list := range []*[]string{&u.Metrics, &u.Labels} {
			slices.Sort(*list)
			*list = slices.Compact(*list)
		}
		answers[i] = u
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}
