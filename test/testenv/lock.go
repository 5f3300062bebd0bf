package testenv

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// LockFile waits until no other process holds the file, which it makes when
// absent, and holds it until unlock is called or the process ends. Whoever
// puts something into the user cache directory takes one, so that several test
// binaries do it once.
func LockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644) // #nosec G302 G304 -- in the cache that all of them share
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}
