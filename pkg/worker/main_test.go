package worker

import (
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func facts() Term {
	return Term{
		Election: events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"},
		Role:     "sync", Epoch: 7, Leader: "pod-b", Identity: "worker-1",
	}
}

func in(d time.Duration) Instant { return Now().Add(d) }
