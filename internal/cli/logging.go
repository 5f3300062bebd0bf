package cli

import (
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// Logging holds the flags of the logger.
type Logging struct {
	level  string
	format string
}

// AddFlags defines --log-level and --log-format.
func (l *Logging) AddFlags(flags *pflag.FlagSet) {
	ChoiceVarP(flags, &l.level, "log-level", "", "info", "least severity that is logged",
		"debug", "info", "warn", "error")
	ChoiceVarP(flags, &l.format, "log-format", "", "text", "form of the log lines on standard error",
		"text", "json")
}

// Logger returns the logger that the flags ask for.
func (l *Logging) Logger(w io.Writer) *slog.Logger {
	var level slog.Level
	// The flag admits only names that parse.
	_ = level.UnmarshalText([]byte(l.level))
	opts := &slog.HandlerOptions{Level: level}
	if l.format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
