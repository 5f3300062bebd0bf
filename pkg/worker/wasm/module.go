package wasm

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

// Options say what a module may have and use. The zero value gives nothing,
// and has the defaults that are named at the fields.
type Options struct {
	// Args are the arguments, without the program's name.
	Args []string
	// Env is the environment, "key=value". The term's variables (see
	// worker.Term.Environ) are added in any case.
	Env []string
	// Mounts are the directories that the module sees.
	Mounts []Mount

	// Memory limits the module's memory, in bytes, rounded down to pages of
	// 64 KiB; 128 MiB when zero, at most 4 GiB. A module that needs more fails.
	Memory uint64
	// Time limits one run for an event; 10 s when zero. A run for a term lasts
	// as long as the term.
	Time time.Duration
	// CacheDir keeps compiled modules, so that the next start does not have to
	// compile; empty for none. It must not be writable for others, since what
	// is in it is executed.
	CacheDir string

	// Stdout and Stderr receive what the module writes; nil means the worker's
	// own. In a run for an event standard output is not used, as what the
	// module writes there is taken as events.
	Stdout, Stderr io.Writer
	// Logger gets the lines of a run for an event that are no events; nil for
	// nobody.
	Logger *slog.Logger

	// interpret makes tests with large modules bearable, which under the race
	// detector take minutes to compile.
	interpret bool
}

const (
	defaultMemory = 128 << 20
	defaultTime   = 10 * time.Second
	pageSize      = 64 << 10
	mostMemory    = 4 << 30
)

// Module is a compiled module. Its methods are safe for concurrent use. It
// must be closed.
type Module struct {
	opts     Options
	cache    wazero.CompilationCache
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	fs       wazero.FSConfig
	roots    []*os.Root

	// busy is held during a run: there is never a second one beside it.
	busy sync.Mutex
}

// New compiles a module, which takes up to some seconds for a large one. It
// fails when the module is malformed, is no WASI preview 1 command, or has a
// memory above the limit to begin with.
func New(ctx context.Context, binary []byte, o Options) (_ *Module, err error) {
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Time == 0 {
		o.Time = defaultTime
	}
	if o.Memory < pageSize || o.Memory > mostMemory || o.Time < 0 {
		return nil, fmt.Errorf("preparing a module: a memory of %d bytes (64 KiB to 4 GiB) or a time of %v (at least 0) is out of range", o.Memory, o.Time)
	}
	m := &Module{opts: o}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("preparing a module: %w", err), m.Close(ctx))
		}
	}()
	if m.fs, m.roots, err = mount(o.Mounts); err != nil {
		return nil, err
	}
	cfg := wazero.NewRuntimeConfig()
	if o.interpret {
		cfg = wazero.NewRuntimeConfigInterpreter()
	}
	cfg = cfg.WithCloseOnContextDone(true).
		WithDebugInfoEnabled(false). // the checks have moved what it points to
		WithMemoryLimitPages(uint32(o.Memory / pageSize))
	if o.CacheDir != "" {
		if m.cache, err = wazero.NewCompilationCacheWithDir(o.CacheDir); err != nil {
			return nil, err
		}
		cfg = cfg.WithCompilationCache(m.cache)
	}
	m.runtime = wazero.NewRuntimeWithConfig(ctx, cfg)
	if _, err = wasi_snapshot_preview1.Instantiate(ctx, m.runtime); err != nil {
		return nil, err
	}
	// A component has a layer where a module has the upper half of its version;
	// see the component model's binary format.
	if len(binary) >= 8 && bytes.HasPrefix(binary, []byte("\x00asm")) && binary[6] != 0 {
		return nil, errors.New("it is a component: build it for WASI preview 1, such as wasm32-wasip1")
	}
	if binary, err = addChecks(binary); err != nil {
		return nil, err
	}
	if m.compiled, err = m.runtime.CompileModule(ctx, binary); err != nil {
		return nil, err
	}
	if err = m.isCommand(); err != nil {
		return nil, err
	}
	return m, nil
}

// isCommand checks that the module can run here at all.
func (m *Module) isCommand() error {
	const entry = "_start"
	if _, ok := m.compiled.ExportedFunctions()[entry]; !ok {
		return fmt.Errorf("it exports no function %s: build it as a command, not as a library or reactor", entry)
	}
	for _, f := range m.compiled.ImportedFunctions() {
		from, name, _ := f.Import()
		if from != wasi_snapshot_preview1.ModuleName {
			return fmt.Errorf("it imports the function %s of %q: only WASI preview 1 is there, as %q",
				name, from, wasi_snapshot_preview1.ModuleName)
		}
	}
	return nil
}

// Close frees what the module holds. A run that is under way is stopped.
func (m *Module) Close(ctx context.Context) error {
	var errs []error
	if m.runtime != nil {
		errs = append(errs, m.runtime.Close(ctx))
	}
	if m.cache != nil {
		errs = append(errs, m.cache.Close(ctx))
	}
	closeRoots(m.roots)
	return errors.Join(errs...)
}

// ExitError reports that a module ended with another exit code than 0.
type ExitError struct{ Code uint32 }

func (e *ExitError) Error() string { return fmt.Sprintf("the module exited with code %d", e.Code) }

// Handle is a worker.Handler: it runs the module until the context ends, or
// the module does. It returns nil when the module exited with code 0, an
// *[ExitError] for any other code, the context's cause when it was stopped, and
// what went wrong otherwise, such as running out of memory.
func (m *Module) Handle(ctx context.Context, t worker.Term) error {
	stdout := m.opts.Stdout
	if stdout == nil {
		stdout = os.Stdout
	}
	return m.run(ctx, t, bytes.NewReader(nil), &interruptible{ctx: ctx, w: stdout})
}

func (m *Module) run(ctx context.Context, t worker.Term, stdin io.Reader, stdout io.Writer) error {
	if !m.busy.TryLock() {
		return errors.New("running a module: it is running already")
	}
	defer m.busy.Unlock()
	if err := t.Check(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	stderr := m.opts.Stderr
	if stderr == nil {
		stderr = os.Stderr
	}
	cfg := wazero.NewModuleConfig().
		WithName(""). // several may be there at a time
		WithArgs(append([]string{"module"}, m.opts.Args...)...).
		WithStdin(stdin).
		WithStdout(stdout).
		WithStderr(&interruptible{ctx: ctx, w: stderr}).
		WithFSConfig(m.fs).
		WithSysWalltime().
		WithSysNanotime().
		WithNanosleep(func(ns int64) { sleep(ctx, time.Duration(ns)) }).
		WithRandSource(rand.Reader)
	for _, kv := range slices.Concat(m.opts.Env, t.Environ()) {
		k, v, _ := strings.Cut(kv, "=")
		cfg = cfg.WithEnv(k, v)
	}
	instance, err := m.runtime.InstantiateModule(ctx, m.compiled, cfg)
	if instance != nil {
		_ = instance.Close(context.WithoutCancel(ctx))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("running a module: it was stopped: %w", context.Cause(ctx))
	}
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		if exit.ExitCode() == 0 {
			return nil
		}
		return &ExitError{Code: exit.ExitCode()}
	}
	if err != nil {
		return fmt.Errorf("running a module: %w", err)
	}
	return nil
}

// sleep is what a module that waits does: it must not outlast the context.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// interruptible writes to w until ctx ends, and does not wait longer for a
// write that hangs, as on a full pipe: a module cannot be stopped inside it.
type interruptible struct {
	ctx context.Context
	w   io.Writer

	pending chan struct{} // closed when the last write has returned
}

func (i *interruptible) Write(b []byte) (int, error) {
	if i.pending != nil {
		select {
		case <-i.pending:
		default:
			return 0, context.Cause(i.ctx) // the one that was given up
		}
	}
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	// The module's memory must not be read once the call has returned.
	kept := bytes.Clone(b)
	done := make(chan struct{})
	i.pending = done
	var n int
	var err error
	go func() {
		defer close(done)
		n, err = i.w.Write(kept)
	}()
	select {
	case <-done:
		return n, err
	case <-i.ctx.Done():
		return 0, context.Cause(i.ctx)
	}
}
