package election_test

import (
	"testing"

	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
)

func TestMain(m *testing.M) { kubeenv.Main(m) }
