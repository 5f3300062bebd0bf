package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// user is one who may enter: a key pair.
type user struct {
	role   string
	seed   string
	public string
}

// newUser makes the key of a user and tells its public half to the server
// configurations, as LEADERBRIDGE_<name>_NKEY.
func newUser(t *testing.T, role string) user {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LEADERBRIDGE_"+strings.ToUpper(strings.ReplaceAll(role, "-", "_"))+"_NKEY", public)
	return user{role: role, seed: string(seed), public: public}
}

// file writes the seed where the flag --nats-nkey finds it.
func (u user) file(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), u.role+".nk")
	if err := os.WriteFile(path, []byte(u.seed), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// inbox is the prefix of the subjects that answers to the user come on.
func (u user) inbox() string { return "_INBOX_" + u.role }

// enter connects as the user.
func (u user) enter(t *testing.T, s *natsenv.Server) *nats.Conn {
	t.Helper()
	pair, err := nkeys.FromSeed([]byte(u.seed))
	if err != nil {
		t.Fatal(err)
	}
	options := []nats.Option{nats.Nkey(u.public, pair.Sign), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	if u.role != "admin" {
		options = append(options, nats.CustomInboxPrefix(u.inbox()))
	}
	return s.Connect(t, options...)
}

// serve starts a server with a shipped configuration, on loopback and on free
// ports. A leaf server that is started next connects to it.
func serve(t *testing.T, conf string, options ...natsenv.Option) *natsenv.Server {
	t.Helper()
	t.Setenv("LEADERBRIDGE_STORE", t.TempDir())
	load := func(o *server.Options) {
		shippedOptions, err := server.ProcessConfigFile(shipped("nats", conf))
		if err != nil {
			t.Fatalf("read %s: %v", conf, err)
		}
		shippedOptions.Host, shippedOptions.Port = o.Host, o.Port
		shippedOptions.HTTPHost, shippedOptions.HTTPPort = "", 0
		shippedOptions.NoSigs = true
		// One server of a cluster is enough for all that is tried here.
		shippedOptions.PidFile, shippedOptions.StoreDir = "", o.StoreDir
		shippedOptions.Cluster, shippedOptions.Routes = server.ClusterOpts{}, nil
		if shippedOptions.LeafNode.Port != 0 {
			port, err := testenv.FreePort()
			if err != nil {
				t.Fatal(err)
			}
			shippedOptions.LeafNode.Host, shippedOptions.LeafNode.Port = "127.0.0.1", port
			t.Setenv("LEADERBRIDGE_HUB_URL", fmt.Sprintf("nats-leaf://127.0.0.1:%d", port))
		}
		*o = *shippedOptions
	}
	return natsenv.Start(t, append([]natsenv.Option{load}, options...)...)
}

// makeStream does what "nats stream add --config" does.
func makeStream(t *testing.T, nc *nats.Conn, file string) jetstream.Stream {
	t.Helper()
	text, err := os.ReadFile(shipped("nats", file))
	if err != nil {
		t.Fatal(err)
	}
	var config jetstream.StreamConfig
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream, err := js.CreateStream(ctx, config)
	if err != nil {
		t.Fatalf("make the stream of %s: %v", file, err)
	}
	return stream
}
