package natsconn

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
)

// transport returns the options for TLS. The files are read once now, to
// refuse what cannot work; nats.go reads them again for each handshake.
func (o Options) transport() ([]nats.Option, faults) {
	var f faults
	var opts []nats.Option
	if o.TLSServerName != "" {
		opts = append(opts, nats.Secure(&tls.Config{ServerName: o.TLSServerName, MinVersion: tls.VersionTLS12}))
	}
	if o.TLSCA != "" {
		if err := checkCA(o.TLSCA); err != nil {
			f.add("--nats-tls-ca: %v", err)
		} else {
			opts = append(opts, nats.RootCAs(o.TLSCA))
		}
	}
	if o.TLSCert != "" {
		if _, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey); err != nil {
			f.add("--nats-tls-cert, --nats-tls-key: %v", err)
		} else {
			opts = append(opts, nats.ClientCert(o.TLSCert, o.TLSKey))
		}
	}
	if o.TLSFirst {
		opts = append(opts, nats.TLSHandshakeFirst())
	}
	return opts, f
}

func checkCA(file string) error {
	pem, err := os.ReadFile(file) // #nosec G304 -- the operator names it
	if err != nil {
		return err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s holds no PEM certificate", file)
	}
	return nil
}
