package cli

import (
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/leaderbridge/leaderbridge/internal/logging"
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
	ChoiceVarP(flags, &l.format, "log-format", "", string(logging.Text), "form of the log lines on standard error",
		string(logging.Text), string(logging.JSON))
}

// Logger returns the logger that the flags ask for.
func (l *Logging) Logger(w io.Writer) *slog.Logger { return l.logger(w, l.level) }

// QuietLogger is Logger for commands whose output people read: unless the level
// was asked for, it tells only of trouble.
func (l *Logging) QuietLogger(w io.Writer, flags *pflag.FlagSet) *slog.Logger {
	if flags.Changed("log-level") {
		return l.Logger(w)
	}
	return l.logger(w, "warn")
}

func (l *Logging) logger(w io.Writer, name string) *slog.Logger {
	// The flags admit only values that are known.
	var level slog.Level
	_ = level.UnmarshalText([]byte(name))
	logger, err := logging.New(w, logging.Options{Format: logging.Format(l.format), Level: level})
	if err != nil {
		panic(err)
	}
	return logger
}
