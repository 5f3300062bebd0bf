package natsconn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// authority is a certificate authority made for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key, pemOf("CERTIFICATE", der)}
}

// issue returns a certificate and its key, for a server when hosts are given
// and else for a client.
func (a *authority) issue(t *testing.T, name string, hosts ...string) (certPEM, keyPEM string) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("CERTIFICATE", der), pemOf("EC PRIVATE KEY", keyDER)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// withTLS makes a server show a certificate of its own authority, and ask
// clients for one of theirs if there is such an authority.
func withTLS(t *testing.T, own, clients *authority, hosts ...string) natsenv.Option {
	t.Helper()
	cert, key := own.issue(t, "server", hosts...)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clients != nil {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AddCert(clients.cert)
	}
	return func(o *server.Options) {
		o.TLSConfig, o.TLS, o.TLSTimeout = config, true, 5
	}
}

func TestTLS(t *testing.T) {
	ca, clients := newAuthority(t, "servers"), newAuthority(t, "clients")
	caFile := tempFile(t, "ca.pem", ca.pem)
	cert, key := clients.issue(t, "client")
	certFile, keyFile := tempFile(t, "tls.crt", cert), tempFile(t, "tls.key", key)
	for _, tc := range []struct {
		name   string
		server []natsenv.Option
		o      Options
	}{
		{"server's certificate", []natsenv.Option{withTLS(t, ca, nil, "127.0.0.1")}, Options{TLSCA: caFile}},
		{"client's certificate", []natsenv.Option{withTLS(t, ca, clients, "127.0.0.1")}, Options{TLSCA: caFile, TLSCert: certFile, TLSKey: keyFile}},
		{"another name", []natsenv.Option{withTLS(t, ca, nil, "nats.example")}, Options{TLSCA: caFile, TLSServerName: "nats.example"}},
		{"TLS first", []natsenv.Option{withTLS(t, ca, nil, "127.0.0.1"), func(o *server.Options) { o.TLSHandshakeFirst = true }}, Options{TLSCA: caFile, TLSFirst: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := natsenv.Start(t, tc.server...)
			tc.o.URLs = []string{strings.Replace(srv.URL(), "nats://", "tls://", 1)}
			conn, _ := open(t, tc.o)
			waitConnected(t, conn)
			if _, err := conn.TLSConnectionState(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTLSIsDemandedWhenAsked(t *testing.T) {
	ca, stranger := newAuthority(t, "servers"), newAuthority(t, "strangers")
	for _, tc := range []struct {
		name   string
		server []natsenv.Option
		ca     *authority
		want   string
	}{
		{"the server has none", nil, ca, "secure connection not available"},
		{"the server is a stranger", []natsenv.Option{withTLS(t, stranger, nil, "127.0.0.1")}, ca, "certificate signed by unknown authority"},
		{"the server has another name", []natsenv.Option{withTLS(t, ca, nil, "nats.example")}, ca, "doesn't contain any IP SANs"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := natsenv.Start(t, tc.server...)
			conn, book := open(t, Options{URLs: []string{srv.URL()}, TLSCA: tempFile(t, "ca.pem", tc.ca.pem)})
			refusedTimes(t, srv, 3)
			waitLog(t, book, 1, "cannot be made", tc.want)
			if conn.IsConnected() || len(book.lines("cannot be made")) != 1 {
				t.Errorf("connected %v, log:\n%s", conn.IsConnected(), book)
			}
		})
	}
}

// Case 56: the CA and the client's certificate are replaced on disk, one after
// the other, while the connection is up.
func TestReplacedCertificatesAreUsed(t *testing.T) {
	oldCA, oldClients := newAuthority(t, "servers 1"), newAuthority(t, "clients 1")
	newCA, newClients := newAuthority(t, "servers 2"), newAuthority(t, "clients 2")
	dir := t.TempDir()
	caFile, certFile, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	replace(t, caFile, oldCA.pem)
	cert, key := oldClients.issue(t, "client 1")
	replace(t, certFile, cert)
	replace(t, keyFile, key)

	srv := natsenv.Start(t, withTLS(t, oldCA, oldClients, "127.0.0.1"))
	conn, book := open(t, Options{URLs: []string{srv.URL()}, TLSCA: caFile, TLSCert: certFile, TLSKey: keyFile})
	waitConnected(t, conn)
	port := portOf(t, srv)
	srv.Stop()
	waitLog(t, book, 1, "NATS connection lost")

	again := natsenv.Start(t, withTLS(t, newCA, newClients, "127.0.0.1"), func(o *server.Options) { o.Port = port })
	waitLog(t, book, 1, "cannot be made", "certificate signed by unknown authority")
	replace(t, caFile, newCA.pem)
	waitLog(t, book, 2, "cannot be made") // the server refuses the old client certificate
	cert, key = newClients.issue(t, "client 2")
	replace(t, certFile, cert) // for a moment it does not fit the key
	replace(t, keyFile, key)
	waitConnected(t, conn)
	waitLog(t, book, 1, "connected to NATS again")

	state, err := conn.TLSConnectionState()
	if err != nil {
		t.Fatal(err)
	}
	if issuer := state.PeerCertificates[0].Issuer.CommonName; issuer != "servers 2" {
		t.Errorf("the server's certificate is by %q", issuer)
	}
	conns, err := again.Embedded().Connz(&server.ConnzOptions{Subscriptions: false, Username: true})
	if err != nil || len(conns.Conns) != 1 {
		t.Errorf("connections at the server: %v, %v", conns, err)
	}
}
