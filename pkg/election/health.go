package election

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The defaults of a Health, which are those of a Kubernetes probe except that
// it is asked more often.
const (
	DefaultHealthPeriod    = 2 * time.Second
	DefaultHealthTimeout   = time.Second
	DefaultHealthThreshold = 3
)

// Health lets a candidate stand only while a check succeeds: not before the
// first success, and not after Threshold failures in a row. A leader hands over
// then, with the reason Unhealthy, and the next success lets it stand again.
type Health struct {
	// Check returns nil when the process is fit to lead. It is called from one
	// goroutine, and its context ends after Timeout. Required.
	Check func(ctx context.Context) error
	// Period is the time between the begins of two checks. Shorter periods
	// find trouble earlier and cost more checks.
	Period time.Duration
	// Timeout bounds a check; one that takes longer has failed.
	Timeout time.Duration
	// Threshold is how many failures in a row end a term. Higher values
	// tolerate hiccups.
	Threshold int
}

func (h Health) withDefaults() Health {
	if h.Period == 0 {
		h.Period = DefaultHealthPeriod
	}
	if h.Timeout == 0 {
		h.Timeout = DefaultHealthTimeout
	}
	if h.Threshold == 0 {
		h.Threshold = DefaultHealthThreshold
	}
	return h
}

func (h Health) validate() error {
	switch {
	case h.Check == nil:
		return errors.New("the health check is missing")
	case h.Period < 0 || h.Timeout < 0 || h.Threshold < 0:
		return fmt.Errorf("health period %s, timeout %s and threshold %d must not be negative", h.Period, h.Timeout, h.Threshold)
	case h.Timeout > h.Period:
		return fmt.Errorf("health timeout %s must be at most the health period %s", h.Timeout, h.Period)
	}
	return nil
}

// verdict is what a row of checks has shown.
type verdict struct {
	fit      bool
	failures int
}

// after returns the verdict after one more check.
func (v verdict) after(err error, threshold int) verdict {
	if err == nil {
		return verdict{fit: true}
	}
	v.failures++
	v.fit = v.fit && v.failures < threshold
	return v
}

// watchHealth asks until ctx ends, and tells the election what changes.
func (e *Elector) watchHealth(ctx context.Context) {
	h := *e.opts.Health
	tick := time.NewTicker(h.Period)
	defer tick.Stop()
	var v verdict
	for {
		check, cancel := context.WithTimeout(ctx, h.Timeout)
		err := h.Check(check)
		cancel()
		if ctx.Err() != nil {
			return
		}
		before := v
		v = v.after(err, h.Threshold)
		switch {
		case v.fit && !before.fit:
			e.opts.Logger.Info("healthy: standing for election", "lock", e.lock.String())
		case !v.fit && before.fit:
			e.opts.Logger.Warn("unhealthy: not standing for election", "lock", e.lock.String(), "failures", v.failures, "error", err)
		case !v.fit && v.failures == 1:
			e.opts.Logger.Warn("not healthy yet: not standing for election", "lock", e.lock.String(), "error", err)
		}
		if v.fit != before.fit && e.Stand(ctx, v.fit) != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
