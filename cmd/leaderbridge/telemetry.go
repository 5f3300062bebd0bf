package main

import (
	"context"
	"log/slog"

	"github.com/leaderbridge/leaderbridge/internal/telemetry"
)

// flush exports what is left. A collector that does not take it is no reason
// for a clean stop to fail.
func flush(ctx context.Context, t *telemetry.Telemetry, log *slog.Logger) {
	if err := t.Shutdown(ctx); err != nil {
		log.Warn("the last traces and metrics are lost", "error", err)
	}
}
