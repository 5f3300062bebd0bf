package bridge_test

import (
	"testing"
	"time"
)

// A clean hand-over: the old worker has ended before the old leader releases,
// and the new one starts at once.
func TestCleanHandOver(t *testing.T) {
	s := newSite(t)
	r := &rota{t: t}
	a := s.stand("a")
	s.leads(a)
	b := s.stand("b")
	s.work(s.server.Connect(t), "w1", "sync", r.handle)
	s.work(s.server.Connect(t), "w2", "sync", r.handle)
	first := s.await(r, "sync", 0)

	begun := time.Now()
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	s.leads(b)
	second := s.await(r, "sync", first.epoch)
	old := r.all()[0]
	t.Logf("stop to new worker: %s; the role was idle for %s", time.Since(begun), second.began.Sub(old.ended))
	if idle := second.began.Sub(old.ended); old.ended == 0 || idle < 0 || idle > time.Second {
		t.Errorf("the role was idle for %s", idle)
	}
}
