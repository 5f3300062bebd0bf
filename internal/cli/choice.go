package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// choice is a flag with a fixed set of values.
type choice struct {
	value  *string
	values []string
}

func (c *choice) String() string { return *c.value }
func (c *choice) Type() string   { return strings.Join(c.values, "|") }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.values, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.values, ", "))
	}
	*c.value = s
	return nil
}

// ChoiceVarP defines a string flag that accepts only the given values; value
// is the default. The shorthand may be empty.
func ChoiceVarP(flags *pflag.FlagSet, p *string, name, shorthand, value, usage string, values ...string) {
	*p = value
	flags.VarP(&choice{value: p, values: values}, name, shorthand, usage)
}

// completeChoices tells the shell the values of cmd's choice flags.
func completeChoices(cmd *cobra.Command) {
	complete := func(f *pflag.Flag) {
		c, ok := f.Value.(*choice)
		if !ok {
			return
		}
		// It fails only if the flag is missing or has a completion already.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(c.values, cobra.ShellCompDirectiveNoFileComp))
	}
	cmd.PersistentFlags().VisitAll(complete)
	cmd.LocalNonPersistentFlags().VisitAll(complete)
}
