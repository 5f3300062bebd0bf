package natsconn

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// natsContext is a context of the nats command, as it stands in
// ~/.config/nats/context/NAME.json. The format is that of
// github.com/nats-io/jsm.go/natscontext; that package is not used because it
// brings the whole server and an expression language into every program, and
// reads secrets once where we read them anew at each connect.
type natsContext struct {
	URL         string `json:"url"`
	Token       string `json:"token"`
	User        string `json:"user"`
	Password    string `json:"password"`
	Creds       string `json:"creds"`
	NKey        string `json:"nkey"`
	UserJWT     string `json:"user_jwt"`
	UserSeed    string `json:"user_seed"`
	Cert        string `json:"cert"`
	Key         string `json:"key"`
	CA          string `json:"ca"`
	TLSFirst    bool   `json:"tls_first"`
	InboxPrefix string `json:"inbox_prefix"`
	JSDomain    string `json:"jetstream_domain"`
	JSAPIPrefix string `json:"jetstream_api_prefix"`

	// Settings that are refused rather than ignored.
	NSC         string `json:"nsc"`
	SocksProxy  string `json:"socks_proxy"`
	WindowsCert string `json:"windows_cert_store"`
}

// withContext returns the options completed from the context that they name.
func (o Options) withContext() (Options, error) {
	if o.Context == "" {
		return o, nil
	}
	c, err := loadContext(o.Context)
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return o, &InputError{Faults: []string{fmt.Sprintf("--nats-context %q: %v", o.Context, err)}}
	}
	return c.complete(o), nil
}

func loadContext(name string) (*natsContext, error) {
	if strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
		return nil, errors.New("is not the name of a context")
	}
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("find the home directory: %w", err)
		}
		dir = filepath.Join(home, ".config")
	}
	path := filepath.Join(dir, "nats", "context", name+".json")
	raw, err := os.ReadFile(path) // #nosec G304 G703 -- the name holds no separators
	if err != nil {
		return nil, err
	}
	var c natsContext
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &c, nil
}

// check refuses what only the nats command can resolve.
func (c *natsContext) check() error {
	var f []string
	for _, s := range []struct{ name, value string }{
		{"nsc", c.NSC}, {"socks_proxy", c.SocksProxy}, {"windows_cert_store", c.WindowsCert},
	} {
		if s.value != "" {
			f = append(f, s.name)
		}
	}
	for _, s := range []struct{ name, value string }{
		{"token", c.Token}, {"password", c.Password}, {"creds", c.Creds}, {"nkey", c.NKey},
		{"user_jwt", c.UserJWT}, {"user_seed", c.UserSeed}, {"cert", c.Cert}, {"key", c.Key}, {"ca", c.CA},
	} {
		for _, scheme := range []string{"op://", "nsc://", "env://", "data:"} {
			if len(s.value) >= len(scheme) && strings.EqualFold(s.value[:len(scheme)], scheme) {
				f = append(f, s.name+" from "+scheme)
			}
		}
	}
	if len(f) > 0 {
		return fmt.Errorf("has settings that are not supported here (%s): give the connection's flags instead", strings.Join(f, ", "))
	}
	return nil
}

// complete fills in what o leaves open. Credentials are taken as a whole or
// not at all, so that those of o never mix with those of the context.
func (c *natsContext) complete(o Options) Options {
	if !o.hasCredentials() {
		o.Creds, o.NKey = contextPath(c.Creds), contextPath(c.NKey)
		o.User = c.User
		o.Password, o.PasswordFile = secretOrFile(c.Password)
		o.Token, o.TokenFile = secretOrFile(c.Token)
		o.userJWT, o.userSeed = c.UserJWT, c.UserSeed
	}
	if len(o.URLs) == 0 && c.URL != "" {
		o.URLs = []string{c.URL}
	}
	if o.TLSCert == "" && o.TLSKey == "" {
		o.TLSCert, o.TLSKey = contextPath(c.Cert), contextPath(c.Key)
	}
	if o.TLSCA == "" {
		o.TLSCA = contextPath(c.CA)
	}
	o.TLSFirst = o.TLSFirst || c.TLSFirst
	if o.InboxPrefix == "" {
		o.InboxPrefix = c.InboxPrefix
	}
	if o.JSDomain == "" && o.JSAPIPrefix == "" {
		o.JSDomain, o.JSAPIPrefix = c.JSDomain, c.JSAPIPrefix
	}
	return o
}

func (o Options) hasCredentials() bool {
	urls, _ := parseURLs(o.URLs)
	for _, u := range urls {
		if u.User != nil {
			return true
		}
	}
	return o.Creds != "" || o.NKey != "" || o.User != "" || o.Password != "" || o.PasswordFile != "" ||
		o.Token != "" || o.TokenFile != ""
}

// contextPath expands a path of a context as the nats command does: variables,
// a leading ~, and file://.
func contextPath(path string) string {
	if rest, ok := cutFileScheme(path); ok {
		path = rest
	}
	path = os.ExpandEnv(path)
	if !strings.HasPrefix(path, "~") {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	return home + path[1:]
}

// secretOrFile splits a secret of a context, which stands there itself or as
// file://PATH.
func secretOrFile(value string) (secret, file string) {
	if _, ok := cutFileScheme(value); ok {
		return "", contextPath(value)
	}
	return value, ""
}

func cutFileScheme(value string) (path string, ok bool) {
	const scheme = "file://"
	if len(value) < len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return value, false
	}
	return value[len(scheme):], true
}
