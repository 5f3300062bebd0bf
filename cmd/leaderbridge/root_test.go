package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestVersion(t *testing.T) {
	code, stdout, stderr := execute(t, "--version")
	if code != 0 || !strings.HasPrefix(stdout, "leaderbridge version ") || stderr != "" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// A Service named leaderbridge makes Kubernetes set LEADERBRIDGE_PORT and the
// like in every pod of its namespace: no flag may listen to those.
func TestNoFlagTakesAServiceVariable(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "port" || strings.HasPrefix(f.Name, "port-") ||
				strings.HasPrefix(f.Name, "service-host") || strings.HasPrefix(f.Name, "service-port") {
				t.Errorf("%s: the variable of --%s collides with those of a Kubernetes Service named leaderbridge", cmd.CommandPath(), f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRoot())
}

// A command that people are to use shows them how.
func TestEveryCommandHasExamples(t *testing.T) {
	for _, cmd := range newRoot().Commands() {
		if cmd.Runnable() && !cmd.Hidden && cmd.Example == "" {
			t.Errorf("%s has no examples", cmd.CommandPath())
		}
	}
}

func TestHelpOfEveryCommand(t *testing.T) {
	for _, cmd := range newRoot().Commands() {
		var out, errs bytes.Buffer
		if code := run(context.Background(), []string{cmd.Name(), "--help"}, strings.NewReader(""), &out, &errs); code != 0 || errs.Len() > 0 {
			t.Errorf("%s: code %d, stderr %q", cmd.Name(), code, errs.String())
		}
	}
}
