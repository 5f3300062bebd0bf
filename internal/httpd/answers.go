package httpd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// starting is why a process without a source is not ready.
const starting = "the process is starting"

// healthz fails only for a stuck elector. Everything else that can be wrong
// (no API server, no NATS, no permission) is not made better by a restart.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	src := s.source.Load()
	if src != nil {
		if why := stuck(*src, time.Now()); why != "" {
			text(w, http.StatusServiceUnavailable, why)
			return
		}
	}
	text(w, http.StatusOK, "ok")
}

// stuck says how long the elector has been silent, if that is too long.
func stuck(src Source, now time.Time) string {
	last, limit := src.Heartbeat()
	if last.IsZero() {
		return ""
	}
	silent := now.Sub(last)
	if silent <= limit {
		return ""
	}
	return fmt.Sprintf("the elector has made no step for %s, at most %s is right",
		silent.Round(time.Millisecond), limit)
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if reasons := s.notReady(); len(reasons) > 0 {
		text(w, http.StatusServiceUnavailable, strings.Join(reasons, "\n"))
		return
	}
	text(w, http.StatusOK, "ok")
}

func (s *Server) notReady() []string {
	src := s.source.Load()
	if src == nil {
		return []string{starting}
	}
	return (*src).NotReady()
}

// leader answers as the leader-elector sidecar did, so that programs written
// for it need no change.
func (s *Server) leader(w http.ResponseWriter, r *http.Request) {
	var answer struct {
		Name string `json:"name"`
	}
	if src := s.source.Load(); src != nil {
		answer.Name = (*src).Leader()
	}
	object(w, answer)
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	answer := struct {
		Alive    bool     `json:"alive"`
		Ready    bool     `json:"ready"`
		NotReady []string `json:"notReady,omitempty"`
		Leader   string   `json:"leader"`
		Status
	}{Alive: true}
	if src := s.source.Load(); src != nil {
		answer.Alive = stuck(*src, time.Now()) == ""
		answer.Leader = (*src).Leader()
		answer.Status = (*src).Status()
	}
	answer.NotReady = s.notReady()
	answer.Ready = len(answer.NotReady) == 0
	object(w, answer)
}

func text(w http.ResponseWriter, code int, body string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	// A client that hangs up is not our error.
	_, _ = fmt.Fprintln(w, body)
}

func object(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		text(w, http.StatusInternalServerError, "encode the answer: "+err.Error())
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(append(body, '\n'))
}
