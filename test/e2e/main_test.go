package e2e

import (
	"log/slog"
	"testing"

	"k8s.io/klog/v2"

	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go candidates are talkative
	kubeenv.Main(m)
}
