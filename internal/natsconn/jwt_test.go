package natsconn

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// operator is the setup of a server in operator mode with one account.
type operator struct {
	claims     *jwt.OperatorClaims
	resolver   *server.MemAccResolver
	account    nkeys.KeyPair
	accountKey string
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pair, err := nkeys.CreateOperator()
	must(err)
	public, err := pair.PublicKey()
	must(err)
	claims := jwt.NewOperatorClaims(public)
	claims.Name = "operator"
	encoded, err := claims.Encode(pair)
	must(err)
	claims, err = jwt.DecodeOperatorClaims(encoded)
	must(err)

	account, err := nkeys.CreateAccount()
	must(err)
	accountKey, err := account.PublicKey()
	must(err)
	accountClaims := jwt.NewAccountClaims(accountKey)
	accountClaims.Name = "account"
	accountJWT, err := accountClaims.Encode(pair)
	must(err)
	resolver := &server.MemAccResolver{}
	must(resolver.Store(accountKey, accountJWT))
	return &operator{claims, resolver, account, accountKey}
}

func (op *operator) option(o *server.Options) {
	o.TrustedOperators = []*jwt.OperatorClaims{op.claims}
	o.AccountResolver = op.resolver
	o.JetStream = false // needs a system account, and is not the subject here
}

// creds returns the content of a credentials file that is good for so long.
func (op *operator) creds(t *testing.T, lifetime time.Duration) string {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.NewUserClaims(public)
	claims.Expires = time.Now().Add(lifetime).Unix()
	encoded, err := claims.Encode(op.account)
	if err != nil {
		t.Fatal(err)
	}
	content, err := jwt.FormatUserConfig(encoded, seed)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// An expired credential ends the connection, never the attempts, and its
// successor on disk is used.
func TestExpiredCredentialsAreReplaced(t *testing.T) {
	op := newOperator(t)
	srv := natsenv.Start(t, op.option)
	file := tempFile(t, "user.creds", op.creds(t, 2*time.Second))
	conn, book := open(t, Options{URLs: []string{srv.URL()}, Creds: file})
	waitConnected(t, conn)
	waitLog(t, book, 1, "NATS connection lost", "expired")
	refusedTimes(t, srv, 4)
	select {
	case <-conn.Done():
		t.Fatalf("gave up: %v", conn.Err())
	default:
	}
	replace(t, file, op.creds(t, time.Hour))
	waitConnected(t, conn)
	waitLog(t, book, 1, "connected to NATS again")
}

// Expired from the start is no different.
func TestCredentialsExpiredAtTheStart(t *testing.T) {
	op := newOperator(t)
	srv := natsenv.Start(t, op.option)
	file := tempFile(t, "user.creds", op.creds(t, -time.Hour))
	conn, book := open(t, Options{URLs: []string{srv.URL()}, Creds: file})
	refusedTimes(t, srv, 4)
	if n := len(book.lines("cannot be made")); n != 1 {
		t.Errorf("%d lines tell it, want 1", n)
	}
	replace(t, file, op.creds(t, time.Hour))
	waitConnected(t, conn)
}

func TestContextWithJWTAndSeed(t *testing.T) {
	op := newOperator(t)
	srv := natsenv.Start(t, op.option)
	content := []byte(op.creds(t, time.Hour))
	encoded, err := nkeys.ParseDecoratedJWT(content)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := nkeys.ParseDecoratedUserNKey(content)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	writeContext(t, fmt.Sprintf(`{"url": %q, "user_jwt": %q, "user_seed": %q}`, srv.URL(), encoded, seed))
	conn, _ := open(t, Options{Context: "prod"})
	waitConnected(t, conn)
}
