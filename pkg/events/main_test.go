package events_test

import (
	"testing"

	"github.com/leaderbridge/leaderbridge/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
