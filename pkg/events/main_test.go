package events_test

import (
	"testing"

	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

func TestMain(m *testing.M) { natsenv.Main(m) }
