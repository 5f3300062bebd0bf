package natsconn

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"pgregory.net/rapid"
)

func faultsOf(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	input, ok := errors.AsType[*InputError](err)
	if !ok {
		t.Fatalf("not an InputError: %v", err)
	}
	return input.Faults
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    Options
		want []string
	}{
		{"nothing", Options{}, nil},
		{"host alone", Options{URLs: []string{"nats.example"}}, nil},
		{"list", Options{URLs: []string{"nats://a:4222, tls://b ,c:5222", "[::1]:4222"}}, nil},
		{"websocket", Options{URLs: []string{"wss://a/nats?x=1,ws://b:80"}}, nil},
		{"user in the URL", Options{URLs: []string{"nats://u:p%40ss@a"}}, nil},
		{"user with password", Options{User: "u", Password: "p"}, nil},
		{"user with password file", Options{User: "u", PasswordFile: "/p"}, nil},
		{"everything else", Options{Creds: "/c", TLSCA: "/ca", TLSCert: "/crt", TLSKey: "/key", TLSServerName: "n", TLSFirst: true,
			InboxPrefix: "_INBOX_me.x", JSDomain: "hub", Name: "n"}, nil},
		{"API prefix as exported", Options{JSAPIPrefix: "$JS.acme.API."}, nil},

		{"empty list", Options{URLs: []string{" , "}}, []string{"--nats-url: names no server"}},
		{"scheme", Options{URLs: []string{"http://a"}}, []string{`--nats-url "http://a": scheme must be one of nats, tls, ws, wss`}},
		{"port", Options{URLs: []string{"nats://a:66000"}}, []string{`--nats-url "nats://a:66000": port must be 1 to 65535`}},
		{"port zero", Options{URLs: []string{"a:0"}}, []string{`--nats-url "a:0": port must be 1 to 65535`}},
		{"port is a word", Options{URLs: []string{"nats://a:x"}}, []string{`--nats-url "nats://a:x": is not a URL such as nats://host:4222`}},
		{"no host", Options{URLs: []string{"nats://"}}, []string{`--nats-url "nats://": names no host`}},
		{"blank in host", Options{URLs: []string{"nats://a b"}}, []string{`--nats-url "nats://a b": is not a URL such as nats://host:4222`}},
		{"bare IPv6", Options{URLs: []string{"nats://::1"}}, []string{`--nats-url "nats://::1": an IPv6 address needs brackets, as in nats://[::1]:4222`}},
		{"path", Options{URLs: []string{"nats://a/b"}}, []string{`--nats-url "nats://a/b": must end after the host and port`}},
		{"mixed", Options{URLs: []string{"ws://a,nats://b"}}, []string{"--nats-url: WebSocket servers (ws, wss) cannot be mixed with others (nats, tls)"}},
		{"raw # in password", Options{URLs: []string{"nats://user:pa#ss@a"}}, []string{
			`--nats-url "nats://xxxxx@a": is not a URL such as nats://host:4222 (in a user name or password, write the characters / ? # @ : % as %XX)`}},
		{"raw / in password", Options{URLs: []string{"nats://user:1234/ss@a"}}, []string{
			`--nats-url "nats://xxxxx@a": must end after the host and port (in a user name or password, write the characters / ? # @ : % as %XX)`}},
		{"raw % in password", Options{URLs: []string{"nats://user:p%ss@a"}}, []string{
			`--nats-url "nats://xxxxx@a": is not a URL such as nats://host:4222 (in a user name or password, write the characters / ? # @ : % as %XX)`}},

		{"two ways in", Options{Creds: "/c", Token: "t"}, []string{"--nats-creds and --nats-token: choose one (flags, or their environment variables)"}},
		{"URL and flag", Options{URLs: []string{"nats://t@a"}, NKey: "/n"}, []string{"credentials in --nats-url and --nats-nkey: choose one (flags, or their environment variables)"}},
		{"user without password", Options{User: "u"}, []string{"--nats-user: needs --nats-password-file or --nats-password"}},
		{"password without user", Options{PasswordFile: "/p"}, []string{"--nats-password: needs --nats-user"}},
		{"password twice", Options{User: "u", Password: "p", PasswordFile: "/p"}, []string{"--nats-password and --nats-password-file: choose one"}},
		{"token twice", Options{Token: "p", TokenFile: "/p"}, []string{"--nats-token and --nats-token-file: choose one"}},
		{"certificate without key", Options{TLSCert: "/c"}, []string{"--nats-tls-cert and --nats-tls-key: one needs the other"}},
		{"inbox prefix", Options{InboxPrefix: "a.>"}, []string{`--nats-inbox-prefix "a.>": must not contain blanks, * or >`}},
		{"inbox prefix with a dot", Options{InboxPrefix: "_INBOX."}, []string{`--nats-inbox-prefix "_INBOX.": must not begin or end with a dot, nor have two in a row`}},
		{"domain", Options{JSDomain: "a.b"}, []string{`--js-domain "a.b": must be one word without dots, blanks, * and >`}},
		{"domain and prefix", Options{JSDomain: "a", JSAPIPrefix: "$JS.x.API"}, []string{"--js-domain and --js-api-prefix: choose one"}},

		{"all faults at once", Options{URLs: []string{"http://a,nats://b:0"}, User: "u", JSDomain: "*"}, []string{
			`--nats-url "http://a": scheme must be one of nats, tls, ws, wss`,
			`--nats-url "nats://b:0": port must be 1 to 65535`,
			"--nats-user: needs --nats-password-file or --nats-password",
			`--js-domain "*": must be one word without dots, blanks, * and >`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := faultsOf(t, tc.o.Validate()); !slices.Equal(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}

func TestDefaultsAreValidAndComeFromFlags(t *testing.T) {
	var o Options
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse([]string{"--nats-url=a,b", "--nats-url", "c", "--nats-token", "t", "--nats-tls-first", "--js-domain=hub"}); err != nil {
		t.Fatal(err)
	}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.URLs, []string{"a,b", "c"}) || o.Token != "t" || !o.TLSFirst || o.JSDomain != "hub" {
		t.Errorf("got %+v", o)
	}
}

// Whatever stands before the last @ may be a secret.
func FuzzURLFaultsKeepSecrets(f *testing.F) {
	for _, extra := range []string{"", " x", "/x", "#x", "%x", "?x", "@x", ":x", "[", "\x00", "://", "://x@y"} {
		f.Add("nats://user:", extra, "host:4222")
		f.Add("nats://", extra, "host:x")
		f.Add("http://", extra, "")
		f.Add("", extra, "host:0")
	}
	f.Fuzz(func(t *testing.T, before, extra, after string) {
		const secret = "s3cret"
		if strings.ContainsAny(before+extra, ",") || strings.Contains(after, secret) {
			t.Skip() // another URL
		}
		raw := before + secret + extra + "@" + after
		_, faults := parseURLs([]string{raw})
		for _, fault := range append(faults, redact(raw)) {
			if strings.Contains(fault, secret) {
				t.Errorf("%q is told as %s", raw, fault)
			}
		}
	})
}

func TestRedactKeepsTheHost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.StringMatching(`[a-z]{1,8}(:[0-9]{1,4})?`).Draw(t, "host")
		user := rapid.StringMatching(`[^,/]{1,12}`).Draw(t, "user")
		scheme := rapid.SampledFrom([]string{"", "nats://", "tls://"}).Draw(t, "scheme")
		if got := redact(scheme + host); got != scheme+host {
			t.Fatalf("without credentials: %q", got)
		}
		if got, want := redact(scheme+user+"@"+host), scheme+"xxxxx@"+host; got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// writeContext makes the context prod of the nats command, to be found through
// XDG_CONFIG_HOME.
func writeContext(t *testing.T, content string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "nats", "context")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "prod.json"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CONFIG_HOME", filepath.Dir(filepath.Dir(dir)))
}

func TestContextCompletesOptions(t *testing.T) {
	const full = `{"description": "d", "url": "tls://ctx:4222", "user": "cu", "password": "cp", "cert": "~/c.pem", "key": "$SECRETS/k.pem",
		"ca": "file:///ca.pem", "tls_first": true, "inbox_prefix": "_X", "jetstream_domain": "hub", "color_scheme": "bold"}`
	t.Setenv("HOME", "/home/me")
	t.Setenv("SECRETS", "/secrets")
	for _, tc := range []struct {
		name    string
		content string
		o       Options
		want    Options
	}{
		{"all from the context", full, Options{}, Options{URLs: []string{"tls://ctx:4222"}, User: "cu", Password: "cp",
			TLSCert: "/home/me/c.pem", TLSKey: "/secrets/k.pem", TLSCA: "/ca.pem", TLSFirst: true, InboxPrefix: "_X", JSDomain: "hub"}},
		{"options win, credentials as a whole", full, Options{URLs: []string{"nats://flag"}, Token: "t", TLSCA: "/own", InboxPrefix: "_Y", JSAPIPrefix: "$JS.z.API"},
			Options{URLs: []string{"nats://flag"}, Token: "t", TLSCA: "/own", TLSCert: "/home/me/c.pem", TLSKey: "/secrets/k.pem", TLSFirst: true, InboxPrefix: "_Y", JSAPIPrefix: "$JS.z.API"}},
		{"credentials in the URL count too", full, Options{URLs: []string{"nats://u:p@flag"}},
			Options{URLs: []string{"nats://u:p@flag"}, TLSCA: "/ca.pem", TLSCert: "/home/me/c.pem", TLSKey: "/secrets/k.pem", TLSFirst: true, InboxPrefix: "_X", JSDomain: "hub"}},
		{"secret from a file", `{"token": "file:///run/token"}`, Options{}, Options{TokenFile: "/run/token"}},
		{"JWT and seed", `{"user_jwt": "a.b.c", "user_seed": "SU"}`, Options{}, Options{userJWT: "a.b.c", userSeed: "SU"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			writeContext(t, tc.content)
			tc.o.Context, tc.want.Context = "prod", "prod"
			got, err := tc.o.withContext()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.URLs, tc.want.URLs) {
				t.Errorf("URLs %q, want %q", got.URLs, tc.want.URLs)
			}
			got.URLs, tc.want.URLs = nil, nil
			if a, b := asText(got), asText(tc.want); a != b {
				t.Errorf("got  %s\nwant %s", a, b)
			}
		})
	}
}

func TestContextRefused(t *testing.T) {
	for _, tc := range []struct{ name, context, content, want string }{
		{"absent", "other", `{}`, "no such file or directory"},
		{"path", "../prod", `{}`, "is not the name of a context"},
		{"no JSON", "prod", `{"url": `, "unexpected end of JSON input"},
		{"vault", "prod", `{"creds": "op://vault/x", "nsc": "nsc://a/b/c"}`, "has settings that are not supported here (nsc, creds from op://)"},
		{"proxy", "prod", `{"socks_proxy": "socks5://x"}`, "has settings that are not supported here (socks_proxy)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			writeContext(t, tc.content)
			_, err := Options{Context: tc.context}.withContext()
			f := faultsOf(t, err)
			if len(f) != 1 || !strings.HasPrefix(f[0], "--nats-context ") || !strings.Contains(f[0], tc.want) || strings.Contains(f[0], "\n") {
				t.Errorf("got %q, want one fault with %q", f, tc.want)
			}
		})
	}
}
