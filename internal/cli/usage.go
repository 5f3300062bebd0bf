package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// Widths of help texts, in columns: for anything that is not a terminal, and
// the most that is comfortable to read.
const (
	plainWidth = 80
	maxWidth   = 120
)

// groupKey is the annotation of a flag with the name of its group.
const groupKey = "leaderbridge-group"

// AddGroup adds all of group's flags, which the help shows under the name of
// that flag set.
func AddGroup(flags, group *pflag.FlagSet) {
	group.VisitAll(func(f *pflag.Flag) {
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[groupKey] = []string{group.Name()}
	})
	flags.AddFlagSet(group)
}

// printUsage prints what follows a command's description in its help.
//
// Names of variables are long, so each flag has its text on lines of its own
// and not in a column that would be a word wide.
func printUsage(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	var b strings.Builder
	section := func(title string) { fmt.Fprintf(&b, "\n%s:\n", title) }

	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		section("Examples")
		b.WriteString(cmd.Example + "\n")
	}
	if cmd.HasAvailableSubCommands() {
		section("Commands")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(&b, "  %-*s  %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	width := widthOf(out)
	var names []string
	groups := map[string][]*pflag.Flag{}
	add := func(group string, f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if !slices.Contains(names, group) {
			names = append(names, group)
		}
		groups[group] = append(groups[group], f)
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[groupKey] == nil {
			add("Flags", f)
		}
	})
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if group := f.Annotations[groupKey]; group != nil {
			add(group[0]+" flags", f)
		}
	})
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { add("Flags of all commands", f) })
	for _, group := range names {
		section(group)
		for _, f := range groups[group] {
			b.WriteString(flagText(f, width))
		}
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s COMMAND --help\" for more about a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// flagText is what the help says about a flag.
func flagText(f *pflag.Flag, width int) string {
	const indent = "        "
	placeholder, usage := pflag.UnquoteUsage(f)
	head := "      --" + f.Name
	if f.Shorthand != "" && f.ShorthandDeprecated == "" {
		head = "  -" + f.Shorthand + ", --" + f.Name
	}
	if placeholder != "" {
		head += " " + placeholder
	}
	if !slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue) {
		usage += " (default " + f.DefValue + ")"
	}
	if variables := f.Annotations[envKey]; variables != nil {
		usage += " [" + strings.Join(variables, ", ") + "]"
	}
	text := ansi.Wordwrap(usage, width-len(indent), "")
	return head + "\n" + indent + strings.ReplaceAll(text, "\n", "\n"+indent) + "\n"
}

func widthOf(out io.Writer) int {
	if f, ok := out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return min(w, maxWidth)
		}
	}
	return plainWidth
}
