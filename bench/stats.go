package main

import (
	"slices"
	"time"
)

// samples are measured values of one kind, in milliseconds unless said
// otherwise.
type samples []float64

func (s *samples) add(d time.Duration) { *s = append(*s, millis(d)) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// at returns the value that the part p of all samples, 0 to 1, does not exceed:
// the nearest rank, which is always a value that was measured.
func (s samples) at(p float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(p*float64(len(sorted)) + 0.9999999)
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func (s samples) p50() float64 { return s.at(0.50) }
func (s samples) p99() float64 { return s.at(0.99) }
