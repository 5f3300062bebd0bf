package bridge

import (
	"fmt"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/buildinfo"
	"github.com/leaderbridge/leaderbridge/internal/httpd"
)

// livenessMargin is added to the lease duration before a silent election
// counts as stuck, for machines that are merely slow.
const livenessMargin = 10 * time.Second

// Heartbeat implements httpd.Source.
func (b *Bridge) Heartbeat() (last time.Time, limit time.Duration) {
	return b.elector.Snapshot().Turned, b.cfg.Options.Default().LeaseDuration + livenessMargin
}

// NotReady implements httpd.Source. A candidate is ready when it sees the lock
// and follows the log.
func (b *Bridge) NotReady() []string {
	var reasons []string
	s := b.elector.Snapshot()
	switch {
	case !s.Known && s.LastError != "":
		reasons = append(reasons, fmt.Sprintf("%s has not been seen yet: %s", b.lock, s.LastError))
	case !s.Known:
		reasons = append(reasons, fmt.Sprintf("%s has not been seen yet", b.lock))
	case s.LastError != "":
		reasons = append(reasons, fmt.Sprintf("the last request to %s failed: %s", b.lock, s.LastError))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.logErr != nil {
		reasons = append(reasons, fmt.Sprintf("the log is not followed: %s", b.logErr))
	}
	return reasons
}

// Leader implements httpd.Source.
func (b *Bridge) Leader() string { return b.elector.Snapshot().State.Holder() }

// Status implements httpd.Source.
func (b *Bridge) Status() httpd.Status {
	s := b.elector.Snapshot()
	e := b.cfg.Election
	stats := b.recorder.Stats()
	st := httpd.Status{
		Identity: b.elector.Identity(),
		Version:  buildinfo.Version(),
		Queued:   stats.Queued,
		Elections: []httpd.Election{{
			Cluster: e.Cluster, Namespace: e.Namespace, Lease: e.Lease,
			Leader: s.State.Holder(), Leading: s.Leading, Epoch: b.recorder.Epoch(e), Since: s.State.At,
		}},
	}
	if s.LastError != "" {
		st.Errors = append(st.Errors, httpd.Error{Part: "election", Error: s.LastError})
	}
	if stats.LastError != nil {
		st.Errors = append(st.Errors, httpd.Error{Part: "log", Error: stats.LastError.Error()})
	}
	return st
}
