package wasm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/tetratelabs/wazero"
	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/sys"
)

// Mount makes a directory visible to a module, and nothing outside of it, also
// not by symbolic links that point there.
type Mount struct {
	// Host is the directory on this machine.
	Host string
	// Guest is where the module sees it: an absolute path with slashes.
	Guest string
	// Writable allows to create, change and remove what is in it. Links cannot
	// be made.
	Writable bool
}

// mount opens the mounts. The roots must be closed.
func mount(mounts []Mount) (cfg wazero.FSConfig, roots []*os.Root, err error) {
	cfg = wazero.NewFSConfig()
	for _, m := range mounts {
		if !path.IsAbs(m.Guest) {
			err = fmt.Errorf("mounting %s: the path in the module, %q, is not absolute", m.Host, m.Guest)
			break
		}
		root, openErr := os.OpenRoot(m.Host)
		if openErr != nil {
			err = fmt.Errorf("mounting %s: %w", m.Host, openErr)
			break
		}
		roots = append(roots, root)
		var inside experimentalsys.FS = &confined{FS: sysfs.DirFS(m.Host), root: root, writable: m.Writable}
		if !m.Writable {
			inside = &sysfs.ReadFS{FS: inside}
		}
		with, ok := cfg.(sysfs.FSConfig)
		if !ok {
			err = fmt.Errorf("mounting %s: not supported by this version of wazero", m.Host)
			break
		}
		cfg = with.WithSysFSMount(inside, m.Guest)
	}
	if err != nil {
		closeRoots(roots)
		return nil, nil, err
	}
	return cfg, roots, nil
}

func closeRoots(roots []*os.Root) {
	for _, r := range roots {
		_ = r.Close()
	}
}

// confined keeps a module inside a directory. The runtime's own file system
// lets it out, by "../" (see wazero.FSConfig) and by symbolic links, so every
// path is first looked up below an os.Root, which does not.
//
// A module is one thread and cannot make links, so it cannot change what a
// path means between that look and its use.
type confined struct {
	experimentalsys.FS
	root     *os.Root
	writable bool
}

// look returns what is at a path, following a symbolic link at its end or not.
// Info is nil when there is nothing; that is no error.
func (c *confined) look(name string, follow bool) (info fs.FileInfo, errno experimentalsys.Errno) {
	name = strings.Trim(name, "/") // the runtime puts one before names in the directory itself
	if name == "" {
		name = "."
	}
	if !filepath.IsLocal(name) {
		return nil, experimentalsys.EPERM
	}
	var err error
	if follow {
		info, err = c.root.Stat(name)
	} else {
		info, err = c.root.Lstat(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, experimentalsys.EPERM
	}
	return info, 0
}

// OpenFile opens directories and regular files. Anything else, such as a pipe,
// could hold the module up for ever where it cannot be stopped.
func (c *confined) OpenFile(name string, flag experimentalsys.Oflag, perm fs.FileMode) (experimentalsys.File, experimentalsys.Errno) {
	const writes = experimentalsys.O_WRONLY | experimentalsys.O_RDWR | experimentalsys.O_CREAT | experimentalsys.O_TRUNC | experimentalsys.O_APPEND
	if !c.writable && flag&writes != 0 {
		return nil, experimentalsys.EROFS
	}
	info, errno := c.look(name, true)
	if errno != 0 {
		return nil, errno
	}
	if info != nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, experimentalsys.EPERM
	}
	return c.FS.OpenFile(name, flag, perm)
}

func (c *confined) Lstat(name string) (sys.Stat_t, experimentalsys.Errno) {
	if _, errno := c.look(name, false); errno != 0 {
		return sys.Stat_t{}, errno
	}
	return c.FS.Lstat(name)
}

func (c *confined) Stat(name string) (sys.Stat_t, experimentalsys.Errno) {
	if _, errno := c.look(name, true); errno != 0 {
		return sys.Stat_t{}, errno
	}
	return c.FS.Stat(name)
}

func (c *confined) Mkdir(name string, perm fs.FileMode) experimentalsys.Errno {
	if _, errno := c.look(name, false); errno != 0 {
		return errno
	}
	return c.FS.Mkdir(name, perm)
}

func (c *confined) Chmod(name string, perm fs.FileMode) experimentalsys.Errno {
	if _, errno := c.look(name, true); errno != 0 {
		return errno
	}
	return c.FS.Chmod(name, perm)
}

func (c *confined) Rename(from, to string) experimentalsys.Errno {
	for _, name := range []string{from, to} {
		if _, errno := c.look(name, false); errno != 0 {
			return errno
		}
	}
	return c.FS.Rename(from, to)
}

func (c *confined) Rmdir(name string) experimentalsys.Errno {
	if _, errno := c.look(name, false); errno != 0 {
		return errno
	}
	return c.FS.Rmdir(name)
}

func (c *confined) Unlink(name string) experimentalsys.Errno {
	if _, errno := c.look(name, false); errno != 0 {
		return errno
	}
	return c.FS.Unlink(name)
}

func (c *confined) Link(string, string) experimentalsys.Errno { return experimentalsys.EPERM }

func (c *confined) Symlink(string, string) experimentalsys.Errno { return experimentalsys.EPERM }

func (c *confined) Readlink(name string) (string, experimentalsys.Errno) {
	if _, errno := c.look(name, false); errno != 0 {
		return "", errno
	}
	return c.FS.Readlink(name)
}

func (c *confined) Utimens(name string, atim, mtim int64) experimentalsys.Errno {
	if _, errno := c.look(name, true); errno != 0 {
		return errno
	}
	return c.FS.Utimens(name, atim, mtim)
}
