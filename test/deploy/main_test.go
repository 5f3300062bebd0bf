package deploy

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
)

func TestMain(m *testing.M) { kubeenv.Main(m) }

// shipped returns the path of a file in deploy/.
func shipped(parts ...string) string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(append([]string{filepath.Dir(file), "..", "..", "deploy"}, parts...)...)
}
