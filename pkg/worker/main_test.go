package worker

import (
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func facts() Term {
	return Term{
		Election: events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"},
		Role:     "sync", Epoch: 7, Leader: "pod-b", Identity: "worker-1",
	}
}

func in(d time.Duration) Instant { return Now().Add(d) }
