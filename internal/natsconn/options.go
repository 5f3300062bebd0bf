package natsconn

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/pflag"

	"github.com/leaderbridge/leaderbridge/internal/cli"
)

// Options says where NATS is and how to enter. The zero value is a server on
// this machine that asks for nothing.
type Options struct {
	// URLs are servers; each string may hold several, separated by commas.
	// Schemes are nats, tls, ws and wss; without one it is nats.
	URLs []string
	// Context is the name of a context of the nats command. Its settings
	// count where these options say nothing.
	Context string
	// Name is what the server shows for this connection.
	Name string

	// At most one way to authenticate: a credentials file, a file with an NKey
	// seed, a user with a password, a token, or the credentials in a URL.
	Creds        string
	NKey         string
	User         string
	Password     string
	PasswordFile string
	Token        string
	TokenFile    string

	// TLSCA, TLSCert and TLSKey are PEM files. Any of them makes TLS a must.
	TLSCA   string
	TLSCert string
	TLSKey  string
	// TLSServerName is the name in the server's certificate, if it is not the
	// host in the URL.
	TLSServerName string
	// TLSFirst starts TLS before the server has said anything, as servers with
	// handshake_first need.
	TLSFirst bool

	// InboxPrefix replaces _INBOX, for accounts whose permissions ask for it.
	InboxPrefix string
	// JSDomain and JSAPIPrefix say where JetStream answers; at most one.
	JSDomain    string
	JSAPIPrefix string

	// userJWT and userSeed can only come from a context.
	userJWT, userSeed string
}

// AddFlags defines the flags, whose defaults are the zero value, as a group of
// their own in the help.
func (o *Options) AddFlags(all *pflag.FlagSet) {
	flags := pflag.NewFlagSet("NATS", pflag.ContinueOnError)
	flags.StringArrayVar(&o.URLs, "nats-url", nil, "NATS servers, a `list` separated by commas (default "+nats.DefaultURL+")")
	flags.StringVar(&o.Context, "nats-context", "", "take what is not set here from this `context` of the nats command")
	flags.StringVar(&o.Name, "nats-name", "", "`name` of the connection, as the server shows it")
	flags.StringVar(&o.Creds, "nats-creds", "", "credentials `file` with the user's JWT and seed")
	flags.StringVar(&o.NKey, "nats-nkey", "", "`file` with the user's NKey seed")
	flags.StringVar(&o.User, "nats-user", "", "user `name`")
	flags.StringVar(&o.Password, "nats-password", "", "user's `password`; a file or the variable keeps it out of the list of processes")
	flags.StringVar(&o.PasswordFile, "nats-password-file", "", "`file` with the user's password")
	flags.StringVar(&o.Token, "nats-token", "", "authentication `token`; a file or the variable keeps it out of the list of processes")
	flags.StringVar(&o.TokenFile, "nats-token-file", "", "`file` with the authentication token")
	flags.StringVar(&o.TLSCA, "nats-tls-ca", "", "`file` with the CA certificates that the server's is checked with")
	flags.StringVar(&o.TLSCert, "nats-tls-cert", "", "`file` with the client's certificate")
	flags.StringVar(&o.TLSKey, "nats-tls-key", "", "`file` with the key of the client's certificate")
	flags.StringVar(&o.TLSServerName, "nats-tls-server-name", "", "`host` in the server's certificate, if not the one in the URL")
	flags.BoolVar(&o.TLSFirst, "nats-tls-first", false, "start TLS before the server speaks")
	flags.StringVar(&o.InboxPrefix, "nats-inbox-prefix", "", "`prefix` of reply subjects, in place of _INBOX")
	flags.StringVar(&o.JSDomain, "js-domain", "", "JetStream `domain`")
	flags.StringVar(&o.JSAPIPrefix, "js-api-prefix", "", "`prefix` of the JetStream API's subjects, in place of $JS.API")

	// The names that the nats command listens to.
	for flag, variable := range map[string]string{ // #nosec G101 -- names, not secrets
		"nats-url":      "NATS_URL",
		"nats-context":  "NATS_CONTEXT",
		"nats-creds":    "NATS_CREDS",
		"nats-nkey":     "NATS_NKEY",
		"nats-user":     "NATS_USER",
		"nats-password": "NATS_PASSWORD",
		"nats-token":    "NATS_TOKEN",
		"nats-tls-ca":   "NATS_CA",
		"nats-tls-cert": "NATS_CERT",
		"nats-tls-key":  "NATS_KEY",
	} {
		cli.AlsoEnv(flags, flag, variable)
	}
	cli.AddGroup(all, flags)
}

// InputError is what is wrong with the options, one line for each fault, each
// beginning with the flag's name. It holds no secrets.
type InputError struct {
	Faults []string
}

func (e *InputError) Error() string { return strings.Join(e.Faults, "\n") }

// faults collects what is wrong.
type faults []string

func (f *faults) add(format string, args ...any) {
	*f = append(*f, fmt.Sprintf(format, args...))
}

func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return &InputError{Faults: f}
}

// Validate checks the options alone: it reads no file and asks no server. The
// error is an *InputError with every fault.
func (o Options) Validate() error {
	var f faults
	urls, urlFaults := parseURLs(o.URLs)
	f = append(f, urlFaults...)

	inURL := false
	for _, u := range urls {
		inURL = inURL || u.User != nil
	}
	var ways []string
	for _, way := range []struct {
		name string
		set  bool
	}{
		{"credentials in --nats-url", inURL},
		{"--nats-creds", o.Creds != ""},
		{"--nats-nkey", o.NKey != ""},
		{"--nats-user", o.User != "" || o.Password != "" || o.PasswordFile != ""},
		{"--nats-token", o.Token != "" || o.TokenFile != ""},
		{"user_jwt in the context", o.userJWT != ""},
	} {
		if way.set {
			ways = append(ways, way.name)
		}
	}
	if len(ways) > 1 {
		f.add("%s: choose one (flags, or their environment variables)", strings.Join(ways, " and "))
	}
	switch {
	case o.Password != "" && o.PasswordFile != "":
		f.add("--nats-password and --nats-password-file: choose one")
	case o.User != "" && o.Password == "" && o.PasswordFile == "":
		f.add("--nats-user: needs --nats-password-file or --nats-password")
	case o.User == "" && (o.Password != "" || o.PasswordFile != ""):
		f.add("--nats-password: needs --nats-user")
	}
	if o.Token != "" && o.TokenFile != "" {
		f.add("--nats-token and --nats-token-file: choose one")
	}
	if o.userJWT != "" && o.userSeed == "" {
		f.add("user_jwt in the context: needs user_seed")
	}

	if (o.TLSCert == "") != (o.TLSKey == "") {
		f.add("--nats-tls-cert and --nats-tls-key: one needs the other")
	}

	if err := checkPrefix(o.InboxPrefix); err != nil {
		f.add("--nats-inbox-prefix %q: %v", o.InboxPrefix, err)
	}
	if err := checkPrefix(strings.TrimSuffix(o.JSAPIPrefix, ".")); err != nil {
		f.add("--js-api-prefix %q: %v", o.JSAPIPrefix, err)
	}
	if err := checkPrefix(o.JSDomain); err != nil || strings.Contains(o.JSDomain, ".") {
		f.add("--js-domain %q: must be one word without dots, blanks, * and >", o.JSDomain)
	}
	if o.JSDomain != "" && o.JSAPIPrefix != "" {
		f.add("--js-domain and --js-api-prefix: choose one")
	}
	return f.err()
}

// checkPrefix accepts what may begin a subject, and the empty string.
func checkPrefix(s string) error {
	if s == "" {
		return nil
	}
	for token := range strings.SplitSeq(s, ".") {
		if token == "" {
			return errors.New("must not begin or end with a dot, nor have two in a row")
		}
		if strings.ContainsAny(token, "*> \t\r\n\x00") {
			return errors.New("must not contain blanks, * or >")
		}
	}
	return nil
}
