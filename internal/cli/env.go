package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// envPrefix begins the name of every flag's variable.
const envPrefix = "LEADERBRIDGE_"

// Keys of the annotations on a flag.
const (
	alsoEnvKey = "leaderbridge-also-env" // further variables, set by AlsoEnv
	envKey     = "leaderbridge-env"      // all of its variables, set by bindEnv
)

// AlsoEnv lets a flag take its value from further variables, such as NATS_URL,
// when its own is not set. It is called before Prepare.
func AlsoEnv(flags *pflag.FlagSet, name string, variables ...string) {
	// The only error is that the flag does not exist: a programming mistake
	// that the first run of any test shows.
	if err := flags.SetAnnotation(name, alsoEnvKey, variables); err != nil {
		panic(err)
	}
}

// bindEnv names the variables of each flag that cmd itself defines, in the
// flag's annotation.
func bindEnv(cmd *cobra.Command) {
	bind := func(f *pflag.Flag) {
		if f.Annotations[envKey] != nil {
			return
		}
		variables := append([]string{envName(f.Name)}, f.Annotations[alsoEnvKey]...)
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[envKey] = variables
	}
	cmd.PersistentFlags().VisitAll(bind)
	cmd.LocalNonPersistentFlags().VisitAll(bind)
}

func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// applyEnv sets each flag that the command line left alone from its variables.
// An empty variable counts as absent, as is usual in manifests.
func applyEnv(cmd *cobra.Command) error {
	var faults []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			return
		}
		for _, variable := range f.Annotations[envKey] {
			value := os.Getenv(variable)
			if value == "" {
				continue
			}
			if err := cmd.Flags().Set(f.Name, value); err != nil {
				faults = append(faults, fmt.Sprintf("invalid value %q in the environment variable %s: %s",
					value, variable, valueError(err)))
			}
			return
		}
	})
	if len(faults) > 0 {
		return fmt.Errorf("%s", strings.Join(faults, "\n"))
	}
	return nil
}

// valueError is the part of pflag's error that says what is wrong with the
// value, without the flag that nobody used.
func valueError(err error) string {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return e.Unwrap().Error()
	}
	return err.Error()
}
