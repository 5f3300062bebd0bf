package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
	"github.com/leaderbridge/leaderbridge/pkg/worker/wasm"
)

// moduleFlags say what a WebAssembly module may have.
type moduleFlags struct {
	file   string
	mounts []string
	env    []string
	memory resource.QuantityValue
	cache  string

	options wasm.Options // what check has made of them
}

// moduleOnly are the flags that mean nothing to a command.
var moduleOnly = []string{"mount", "env", "memory", "wasm-cache"}

func (m *moduleFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&m.file, "wasm", "", "`file` with a WebAssembly module, a WASI preview 1 command, to run instead of a command; what follows -- are its arguments")
	group := pflag.NewFlagSet("WebAssembly", pflag.ContinueOnError)
	group.StringSliceVar(&m.mounts, "mount", nil, "let the module see a directory, as `HOST:GUEST[:rw]`; read-only without :rw; repeat it, or separate them by commas")
	group.StringArrayVar(&m.env, "env", nil, "give the module a variable, as `NAME=VALUE`, or NAME for this process' own; repeat it for more")
	m.memory.Quantity = resource.MustParse("128Mi")
	group.Var(&m.memory, "memory", "most memory that the module may use, from 64Ki to 4Gi")
	group.StringVar(&m.cache, "wasm-cache", "", "`directory` for compiled modules, so that the next start need not compile; nobody else may be able to write to it")
	cli.AddGroup(flags, group)
}

func (m *moduleFlags) complete(cmd *cobra.Command) {
	// These fail only for flags that do not exist.
	_ = cmd.MarkFlagFilename("wasm", "wasm")
	_ = cmd.MarkFlagDirname("mount")
	_ = cmd.MarkFlagDirname("wasm-cache")
}

// check reads the flags into options.
func (m *moduleFlags) check() error {
	const least, most = 64 << 10, 4 << 30
	bytes := m.memory.Value()
	if bytes < least || bytes > most {
		return fmt.Errorf("--memory %s is out of range: from 64Ki to 4Gi", m.memory.String())
	}
	m.options = wasm.Options{Memory: uint64(bytes), CacheDir: m.cache}
	for _, s := range m.mounts {
		mount, err := parseMount(s)
		if err != nil {
			return err
		}
		m.options.Mounts = append(m.options.Mounts, mount)
	}
	for _, s := range m.env {
		name, _, given := strings.Cut(s, "=")
		if name == "" {
			return fmt.Errorf("--env %q: want NAME=VALUE, or NAME", s)
		}
		if !given {
			value, set := os.LookupEnv(name)
			if !set {
				return fmt.Errorf("--env %s: there is no such variable to pass on", name)
			}
			s = name + "=" + value
		}
		m.options.Env = append(m.options.Env, s)
	}
	return nil
}

// parseMount reads HOST:GUEST, HOST:GUEST:ro or HOST:GUEST:rw.
func parseMount(s string) (wasm.Mount, error) {
	rest, writable := strings.CutSuffix(s, ":rw")
	if !writable {
		rest = strings.TrimSuffix(s, ":ro")
	}
	at := strings.LastIndexByte(rest, ':')
	if at <= 0 || !strings.HasPrefix(rest[at+1:], "/") {
		return wasm.Mount{}, fmt.Errorf("--mount %q: want HOST:GUEST or HOST:GUEST:rw, where GUEST begins with /", s)
	}
	m := wasm.Mount{Host: rest[:at], Guest: rest[at+1:], Writable: writable}
	if info, err := os.Stat(m.Host); err != nil {
		return m, fmt.Errorf("--mount %q: %w", s, err)
	} else if !info.IsDir() {
		return m, fmt.Errorf("--mount %q: %s is not a directory", s, m.Host)
	}
	return m, nil
}

// module is a WebAssembly module as a task.
type module struct{ m *wasm.Module }

func (w *workerCommand) newModule(ctx context.Context, args []string, stdout, stderr io.Writer) (task, error) {
	binary, err := os.ReadFile(w.module.file)
	if err != nil {
		return nil, cli.Usagef("--wasm: %w", err)
	}
	o := w.module.options
	o.Args, o.Stdout, o.Stderr, o.Time, o.Logger = args, stdout, stderr, w.event.timeout, w.log
	m, err := wasm.New(ctx, binary, o)
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return nil, cli.Usagef("--wasm %s: %w", w.module.file, err)
	}
	return &module{m}, nil
}

func (m *module) close() { _ = m.m.Close(context.Background()) }

func (m *module) forTerm(ctx context.Context, t worker.Term) error { return m.m.Handle(ctx, t) }

func (m *module) forEvent(ctx context.Context, t worker.Term, event []byte, publish func(context.Context, []byte) error) error {
	return m.m.HandleEvent(ctx, t, event, publish)
}

// ended holds for whatever ends a module that nobody has stopped: a trap, too
// much memory.
func (m *module) ended(error) bool { return true }

func (m *module) code(err error, stopped bool) int {
	exit := new(wasm.ExitError)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return max(1, int(exit.Code&0xff)) // as systems cut codes
	case stopped:
		return 0
	}
	return 1
}
