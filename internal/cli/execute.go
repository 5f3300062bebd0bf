package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// ran wraps what a command's own function returned, and so tells it from the
// errors that cobra finds before: those are all bad input.
type ran struct{ err error }

func (e *ran) Error() string { return e.err.Error() }
func (e *ran) Unwrap() error { return e.err }

// Prepare finishes a root command that has all its subcommands: it binds each
// flag to its environment variable, gives commands without an argument rule
// the rule "none", adds completion for flags with a fixed set of values, sets
// the form of the help, and leaves all printing of errors to Execute. The commands must use RunE, and
// only the root may have a persistent pre-run hook.
func Prepare(root *cobra.Command) {
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetUsageFunc(printUsage)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())
	})
	walk(root, func(cmd *cobra.Command) {
		bindEnv(cmd)
		completeChoices(cmd)
		if cmd.RunE == nil {
			return
		}
		if cmd.Args == nil {
			cmd.Args = noArgs
		}
		run := cmd.RunE
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := run(cmd, args); err != nil {
				return &ran{err}
			}
			return nil
		}
	})
	pre := root.PersistentPreRunE
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if err := applyEnv(cmd); err != nil {
			return err
		}
		if pre == nil {
			return nil
		}
		return pre(cmd, args)
	}
}

// Execute runs root with the arguments, prints an error to stderr, one line
// each if there are several, and returns the process' exit code.
func Execute(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if args == nil {
		args = []string{} // nil would make cobra read os.Args
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)

	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if _, ok := errors.AsType[*ran](err); !ok {
		err = Usage(err)
	}
	code, speaks := exitCode(err)
	if speaks {
		for line := range strings.SplitSeq(oneLine(err.Error()), "\n") {
			if line = strings.TrimSpace(line); line != "" {
				fmt.Fprintf(stderr, "%s: %s\n", root.Name(), line)
			}
		}
	}
	return code
}

// suggestion is how cobra adds similar names to "unknown command".
var suggestion = regexp.MustCompile(`\s*Did you mean this\?\s*`)

// oneLine turns cobra's block of suggestions into the end of the line before.
func oneLine(msg string) string {
	before, names, found := cutRegexp(msg, suggestion)
	if !found {
		return msg
	}
	return before + ": did you mean " + strings.Join(strings.Fields(names), " or ") + "?"
}

func cutRegexp(s string, re *regexp.Regexp) (before, after string, found bool) {
	at := re.FindStringIndex(s)
	if at == nil {
		return s, "", false
	}
	return s[:at[0]], s[at[1]:], true
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, visit)
	}
}
