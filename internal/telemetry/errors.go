package telemetry

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"

	"github.com/leaderbridge/leaderbridge/internal/telemetry/instruments"
)

// warnEvery is the shortest time between two warnings about exporting.
const warnEvery = time.Minute

// routeInternalLogs sends what OpenTelemetry itself has to say to the logger:
// failed exports at most once a minute, the rest as OTEL_LOG_LEVEL wants it.
func routeInternalLogs(logger *slog.Logger) *errorHandler {
	h := &errorHandler{logger: logger}
	otel.SetErrorHandler(h)
	otel.SetLogger(logr.FromSlogHandler(&internalHandler{Handler: logger.Handler(), least: sdkLogLevel()}))
	return h
}

// errorHandler is told of every failed export.
type errorHandler struct {
	logger *slog.Logger

	mu      sync.Mutex
	metrics *instruments.Metrics
	last    time.Time
	// unsaid counts the errors since the last warning.
	unsaid int
}

// count has further errors counted as metrics too.
func (h *errorHandler) count(m *instruments.Metrics) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.metrics = m
}

func (h *errorHandler) Handle(err error) {
	h.mu.Lock()
	metrics := h.metrics
	unsaid := h.unsaid
	quiet := !h.last.IsZero() && time.Since(h.last) < warnEvery
	if quiet {
		h.unsaid++
	} else {
		h.unsaid, h.last = 0, time.Now()
	}
	h.mu.Unlock()

	metrics.Failed(context.Background(), instruments.PartTelemetry)
	if quiet {
		return
	}
	if unsaid > 0 {
		h.logger.Warn("traces or metrics are lost", "error", err, "errors_since_last_warning", unsaid)
		return
	}
	h.logger.Warn("traces or metrics are lost", "error", err)
}

// OpenTelemetry's own messages come with logr's verbosity, which slog sees as
// negative levels.
const (
	sdkWarn  = slog.Level(-1)
	sdkInfo  = slog.Level(-4)
	sdkDebug = slog.Level(-8)
)

// sdkLogLevel is the level that OTEL_LOG_LEVEL sets, which the Go SDK leaves to
// us. Information about the SDK interests few, so the default is warnings.
func sdkLogLevel() slog.Level {
	switch strings.ToLower(strings.TrimSpace(os.Getenv("OTEL_LOG_LEVEL"))) {
	case "none":
		return slog.LevelError + 1
	case "error":
		return slog.LevelError
	case "info":
		return sdkInfo
	case "debug", "trace", "all":
		return sdkDebug
	}
	return sdkWarn
}

// internalHandler turns OpenTelemetry's levels into slog's.
type internalHandler struct {
	slog.Handler
	least slog.Level
}

func (h *internalHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.least && h.Handler.Enabled(ctx, slogLevel(level))
}

func (h *internalHandler) Handle(ctx context.Context, r slog.Record) error {
	// logr writes errors without asking whether they are enabled.
	if r.Level < h.least {
		return nil
	}
	r.Level = slogLevel(r.Level)
	return h.Handler.Handle(ctx, r)
}

func (h *internalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &internalHandler{h.Handler.WithAttrs(attrs), h.least}
}

func (h *internalHandler) WithGroup(name string) slog.Handler {
	return &internalHandler{h.Handler.WithGroup(name), h.least}
}

func slogLevel(level slog.Level) slog.Level {
	switch {
	case level >= slog.LevelError:
		return slog.LevelError
	case level >= sdkWarn:
		return slog.LevelWarn
	case level >= sdkInfo:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
