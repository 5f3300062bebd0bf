package natsconn

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// authentication returns the options of the one way to authenticate. Whatever
// is in a file is read once now, to refuse what cannot work, and again at each
// connect.
func (o Options) authentication(log *slog.Logger) ([]nats.Option, faults) {
	var f faults
	switch {
	case o.Creds != "":
		if err := checkCreds(o.Creds); err != nil {
			f.add("--nats-creds: %v", err)
			return nil, f
		}
		return []nats.Option{nats.UserCredentials(o.Creds)}, nil
	case o.NKey != "":
		public, err := nkeyPublic(o.NKey)
		if err != nil {
			f.add("--nats-nkey: %v", err)
			return nil, f
		}
		return []nats.Option{nats.Nkey(public, func(nonce []byte) ([]byte, error) { return nkeySign(o.NKey, nonce) })}, nil
	case o.User != "":
		password, err := newSecret(o.Password, o.PasswordFile, log)
		if err != nil {
			f.add("--nats-password-file: %v", err)
			return nil, f
		}
		return []nats.Option{nats.UserInfoHandler(func() (string, string) { return o.User, password.read() })}, nil
	case o.Token != "" || o.TokenFile != "":
		token, err := newSecret(o.Token, o.TokenFile, log)
		if err != nil {
			f.add("--nats-token-file: %v", err)
			return nil, f
		}
		return []nats.Option{nats.TokenHandler(token.read)}, nil
	case o.userJWT != "":
		if _, err := nkeys.FromSeed([]byte(o.userSeed)); err != nil {
			f.add("user_seed in the context: is not an NKey seed")
			return nil, f
		}
		return []nats.Option{nats.UserJWTAndSeed(o.userJWT, o.userSeed)}, nil
	}
	return nil, nil
}

// checkCreds accepts a file with a JWT and a user's seed. It does not look at
// the JWT's dates: an expired one may be replaced.
func checkCreds(file string) error {
	raw, err := os.ReadFile(file) // #nosec G304 -- the operator names it
	if err != nil {
		return err
	}
	jwt, err := nkeys.ParseDecoratedJWT(raw)
	if err != nil || strings.Count(jwt, ".") != 2 {
		return fmt.Errorf("%s holds no user JWT", file)
	}
	pair, err := nkeys.ParseDecoratedUserNKey(raw)
	if err != nil {
		return fmt.Errorf("%s holds no user's NKey seed", file)
	}
	pair.Wipe()
	return nil
}

func nkeyPair(file string) (nkeys.KeyPair, error) {
	raw, err := os.ReadFile(file) // #nosec G304 -- the operator names it
	if err != nil {
		return nil, err
	}
	pair, err := nkeys.ParseDecoratedUserNKey(raw)
	if err != nil {
		return nil, fmt.Errorf("%s holds no user's NKey seed", file)
	}
	return pair, nil
}

func nkeyPublic(file string) (string, error) {
	pair, err := nkeyPair(file)
	if err != nil {
		return "", err
	}
	defer pair.Wipe()
	return pair.PublicKey()
}

func nkeySign(file string, nonce []byte) ([]byte, error) {
	pair, err := nkeyPair(file)
	if err != nil {
		return nil, err
	}
	defer pair.Wipe()
	return pair.Sign(nonce)
}

// secret is a password or token: a fixed one, or one from a file that is read
// at each connect.
type secret struct {
	file string
	log  *slog.Logger

	mu   sync.Mutex
	last string
}

func newSecret(value, file string, log *slog.Logger) (*secret, error) {
	s := &secret{file: file, last: value, log: log}
	if file == "" {
		return s, nil
	}
	var err error
	s.last, err = readSecret(file)
	return s, err
}

// read returns the file's content. nats.go has no way to pass an error on, so
// a file that is away for the moment gives the last content: right if it has
// not changed, and else refused by the server and tried again.
func (s *secret) read() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == "" {
		return s.last
	}
	now, err := readSecret(s.file)
	if err != nil {
		s.log.Debug("cannot read a NATS secret anew, using the former one", "error", err)
		return s.last
	}
	s.last = now
	return now
}

func readSecret(file string) (string, error) {
	raw, err := os.ReadFile(file) // #nosec G304 -- the operator names it
	if err != nil {
		return "", err
	}
	s := strings.TrimRight(string(raw), "\r\n")
	if s == "" {
		return "", errors.New(file + " is empty")
	}
	return s, nil
}
