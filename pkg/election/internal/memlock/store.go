package memlock

import (
	"fmt"
	"sync"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/election/internal/core"
)

// Store holds one record and its history. It is safe for concurrent use.
type Store struct {
	mu       sync.Mutex
	now      core.Observation
	revision uint64
	created  uint64
	watches  map[*watch]struct{}
	history  []core.Observation
}

// NewStore returns a store whose lock is absent.
func NewStore() *Store {
	return &Store{watches: map[*watch]struct{}{}}
}

// Open returns a candidate's connection to the store. The name appears in the
// lock's String only.
func (s *Store) Open(name string) *Lock {
	return &Lock{store: s, name: name}
}

// State returns the present state.
func (s *Store) State() core.Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// History returns every state the lock went through, oldest first.
func (s *Store) History() []core.Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]core.Observation(nil), s.history...)
}

// Delete removes the lock, as an operator might. It does nothing to an absent
// one.
func (s *Store) Delete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.Exists {
		s.changeLocked(core.Observation{UID: s.now.UID})
	}
}

// Overwrite puts a record in place without looking at what is there, as a
// foreign writer that knows no conditions. An absent lock is created.
func (s *Store) Overwrite(r core.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(r)
}

// SetBack restores an earlier state together with its revision, as a store
// restored from a backup does. Watches break, since what they saw is no longer
// part of the history.
func (s *Store) SetBack(o core.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.now = o.Revision, o
	s.history = append(s.history, o)
	for w := range s.watches {
		w.breakOff()
	}
}

func (s *Store) create(r core.Record) (core.Observation, error) {
	if err := r.Storable(); err != nil {
		return core.Observation{}, fmt.Errorf("%w: %w", core.ErrRefused, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.Exists {
		return core.Observation{}, fmt.Errorf("create: %w: it exists at revision %d", core.ErrConflict, s.now.Revision)
	}
	return s.putLocked(r), nil
}

func (s *Store) update(base core.Observation, r core.Record) (core.Observation, error) {
	if err := r.Storable(); err != nil {
		return core.Observation{}, fmt.Errorf("%w: %w", core.ErrRefused, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.now.Exists || !base.Exists || s.now.UID != base.UID || s.now.Revision != base.Revision {
		return core.Observation{}, fmt.Errorf("update: %w: based on revision %d, now at %d", core.ErrConflict, base.Revision, s.revision)
	}
	return s.putLocked(r), nil
}

func (s *Store) putLocked(r core.Record) core.Observation {
	uid := s.now.UID
	if !s.now.Exists {
		s.created++
		uid = fmt.Sprintf("uid-%d", s.created)
	}
	s.changeLocked(core.Observation{Exists: true, UID: uid, Record: stored(r)})
	return s.now
}

func (s *Store) changeLocked(o core.Observation) {
	s.revision++
	o.Revision = s.revision
	s.now = o
	s.history = append(s.history, o)
	for w := range s.watches {
		w.push(o)
	}
}

// read is what a reader sees: an absent lock has no revision.
func (s *Store) read() core.Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.now.Exists {
		return core.Observation{}
	}
	return s.now
}

// stored is the record as a Lease would keep it: microseconds, no monotonic
// reading, no zone.
func stored(r core.Record) core.Record {
	for _, t := range []*time.Time{&r.Acquired, &r.Renewed, &r.EpochAcquired} {
		*t = core.StoredTime(*t)
	}
	return r
}
