package natsconn

import (
	"fmt"
	"net/url"
	"strconv"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// withUser makes a server admit the user bridge alone.
func withUser(password string) natsenv.Option {
	return func(o *server.Options) { o.Username, o.Password = "bridge", password }
}

func withToken(token string) natsenv.Option {
	return func(o *server.Options) { o.Authorization = token }
}

type nkey struct{ seed, public string }

func newNKey(t *testing.T) nkey {
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
	return nkey{string(seed), public}
}

func withNKeys(users ...nkey) natsenv.Option {
	return func(o *server.Options) {
		for _, u := range users {
			o.Nkeys = append(o.Nkeys, &server.NkeyUser{Nkey: u.public})
		}
	}
}

func portOf(t *testing.T, srv *natsenv.Server) int {
	t.Helper()
	u, err := url.Parse(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// refusedTimes waits until the server has let go of that many clients: those
// that it refused.
func refusedTimes(t *testing.T, srv *natsenv.Server, n uint64) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		v, err := srv.Embedded().Varz(nil)
		if err != nil {
			return err
		}
		if v.TotalConnections < n {
			return fmt.Errorf("%d connections so far, want %d", v.TotalConnections, n)
		}
		return nil
	})
}
