// Package cli is what the subcommands of leaderbridge share: exit codes, one
// environment variable for every flag, flags with a fixed set of values, the
// logger's flags, and signals. It knows cobra and pflag, and nothing of
// elections or NATS.
//
// A root command is built as usual, finished with Prepare and run with
// Execute:
//
//	root := &cobra.Command{Use: "leaderbridge"}
//	root.AddCommand(newRun(), newWatch())
//	cli.Prepare(root)
//	os.Exit(cli.Execute(ctx, root, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
//
// Exit codes: 0 for success and for a clean stop, 2 for bad input (every
// error from before a command's own function runs, and those it marks with
// Usage), the code given to Exit, and 1 for every other error.
package cli
