package natskv_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/election/locktest"
	"github.com/leaderbridge/leaderbridge/pkg/election/natskv"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/tcpproxy"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const patience = 30 * time.Second

// open returns the lock of an election over a connection.
func open(t *testing.T, conn *nats.Conn, o natskv.Options) election.Lock {
	t.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := natskv.New(js, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// connect connects to an address only, whatever the server says about others.
func connect(t *testing.T, address string, options ...nats.Option) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect("nats://"+address, append([]nats.Option{
		nats.IgnoreDiscoveredServers(), nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// tools are those of an operator: the key-value API of nats.go.
type tools struct {
	js     jetstream.JetStream
	bucket string
	key    string
}

func (o tools) kv(t *testing.T) jetstream.KeyValue {
	t.Helper()
	kv, err := o.js.KeyValue(t.Context(), o.bucket)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func (o tools) delete(t *testing.T) {
	t.Helper()
	if err := o.kv(t).Delete(t.Context(), o.key); err != nil {
		t.Fatal(err)
	}
}

// overwrite changes the holder in the JSON and drops the uid, as software
// would that knows only client-go's record.
func (o tools) overwrite(t *testing.T, holder string) {
	t.Helper()
	kv := o.kv(t)
	entry, err := kv.Get(t.Context(), o.key)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(entry.Value(), &fields); err != nil {
		t.Fatal(err)
	}
	fields["holderIdentity"] = holder
	delete(fields, "uid")
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), o.key, data); err != nil {
		t.Fatal(err)
	}
}

func TestConformanceOnOneServer(t *testing.T) {
	server := natsenv.Start(t)
	proxy := tcpproxy.Start(t, server.Embedded().Addr().String())
	count := 0
	locktest.Run(t, func(t *testing.T) locktest.Fixture {
		t.Helper()
		count++
		o := natskv.Options{Namespace: "prod", Name: fmt.Sprintf("the.lock-%d", count)}
		operator := tools{server.JetStream(t), natskv.DefaultBucket, fmt.Sprintf("prod.the_lock-%d", count)}
		return locktest.Fixture{
			Open: func(t *testing.T) election.Lock {
				t.Helper()
				return open(t, connect(t, proxy.Addr()), o)
			},
			Delete:    operator.delete,
			Overwrite: operator.overwrite,
			Disturb: func(t *testing.T) {
				t.Helper()
				server.Restart(t)
				waitForBucket(t, operator.js)
			},
			Hang: func(*testing.T) func() {
				proxy.Freeze()
				return proxy.Thaw
			},
		}
	})
}

func TestConformanceOnACluster(t *testing.T) {
	cluster := natsenv.StartCluster(t)
	count := 0
	locktest.Run(t, func(t *testing.T) locktest.Fixture {
		t.Helper()
		count++
		o := natskv.Options{Namespace: "prod", Name: fmt.Sprintf("lock-%d", count)}
		operator := tools{cluster.JetStream(t), natskv.DefaultBucket, fmt.Sprintf("prod.lock-%d", count)}
		next := 0
		return locktest.Fixture{
			Open: func(t *testing.T) election.Lock {
				t.Helper()
				next++
				return open(t, cluster.Server(next%natsenv.Size).Connect(t), o)
			},
			Delete:    operator.delete,
			Overwrite: operator.overwrite,
			// A rolling restart, as of an upgrade.
			Disturb: func(t *testing.T) {
				t.Helper()
				for i := range natsenv.Size {
					cluster.Stop(i)
					cluster.Restart(t, i)
				}
				waitForBucket(t, operator.js)
			},
		}
	})
}

// waitForBucket waits until the bucket has a leader.
func waitForBucket(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := js.Stream(ctx, "KV_"+natskv.DefaultBucket)
		return err
	})
}
