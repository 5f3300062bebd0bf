package natsenv

import (
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats-server/v2/server"
)

// configVariable names the configuration file of the server that this process
// is to be. It is set only for the processes that Process starts.
const configVariable = "LEADERBRIDGE_TEST_NATS_CONFIG"

// A test binary that is started by Process is a server and runs no tests. It
// must be decided here, before package testing reads the command line.
func init() {
	if path := os.Getenv(configVariable); path != "" {
		if err := serve(path); err != nil {
			fmt.Fprintln(os.Stderr, "run a NATS server for a test:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// serve runs a server until it is told to stop, or the test that started it is
// gone, however that ended.
func serve(path string) error {
	options, err := server.ProcessConfigFile(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	s, err := server.NewServer(options)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	// Nothing is written to the pipe: it ends with the process that holds the
	// other end.
	_, err = io.Copy(io.Discard, os.Stdin)
	s.Shutdown()
	return err
}
