package node

import (
	"testing"

	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

func TestMain(m *testing.M) {
	testenv.Main(clean{m})
}

// clean removes the command once all tests are over.
type clean struct{ m *testing.M }

func (c clean) Run() int {
	defer procenv.Clean()
	return c.m.Run()
}
