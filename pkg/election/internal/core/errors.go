package core

import "errors"

// The two outcomes of a request that a lock can be certain of. They are
// documented, and meant to be used, as election.ErrConflict and
// election.ErrRefused; they live here so that a lock that tests use from
// inside package election need not import it.
var (
	ErrConflict = errors.New("the lock has changed since it was read")
	ErrRefused  = errors.New("refused")
)
