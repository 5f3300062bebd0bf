package demo

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startServer runs a NATS server with JetStream in this process, on a free
// loopback port.
func startServer(dir string) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{
		ServerName: "leaderbridge-demo",
		Host:       "127.0.0.1",
		Port:       server.RANDOM_PORT,
		JetStream:  true,
		StoreDir:   dir,
		NoLog:      true,
		NoSigs:     true,
	})
	if err != nil {
		return nil, fmt.Errorf("start a NATS server: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		s.Shutdown()
		return nil, errors.New("start a NATS server: it was not ready after ten seconds")
	}
	return s, nil
}
