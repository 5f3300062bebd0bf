package watcher

import (
	"fmt"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/buildinfo"
	"github.com/leaderbridge/leaderbridge/internal/httpd"
)

// Heartbeat implements httpd.Source. A watcher has nothing to do while nobody
// renews, so its silence proves nothing.
func (w *Watcher) Heartbeat() (last time.Time, limit time.Duration) { return time.Time{}, 0 }

// NotReady implements httpd.Source.
func (w *Watcher) NotReady() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var reasons []string
	for s, err := range w.feeds {
		if err != nil {
			reasons = append(reasons, fmt.Sprintf("the Leases of %q are not watched: %s", s.namespace+"/"+s.name, err))
		}
	}
	if w.logErr != nil {
		reasons = append(reasons, fmt.Sprintf("the log is not followed: %s", w.logErr))
	}
	return reasons
}

// Leader implements httpd.Source: of many elections there is no one leader.
func (w *Watcher) Leader() string { return "" }

// Status implements httpd.Source.
func (w *Watcher) Status() httpd.Status {
	w.mu.Lock()
	watched := len(w.leases)
	w.mu.Unlock()
	stats := w.recorder.Stats()
	st := httpd.Status{Identity: w.cfg.Identity, Version: buildinfo.Version(), Watched: watched, Queued: stats.Queued}
	if stats.LastError != nil {
		st.Errors = append(st.Errors, httpd.Error{Part: "log", Error: stats.LastError.Error()})
	}
	return st
}
