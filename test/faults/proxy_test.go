package faults

import (
	"context"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// link is a network path that can be cut or made to swallow everything.
type link struct{ proxy *toxiproxy.Proxy }

func newLink(t *testing.T, name, upstream string) *link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(server, name, "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return &link{proxy: p}
}

func (l *link) addr() string { return l.proxy.Listen }

// hang lets connections stand and swallows what they carry.
func (l *link) hang(t *testing.T) (heal func()) {
	_, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(
		`{"name":"hang","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`))
	if err != nil {
		t.Errorf("hang %s: %v", l.proxy.Name, err)
		return func() {}
	}
	return func() {
		if err := l.proxy.Toxics.RemoveToxic(context.Background(), "hang"); err != nil {
			t.Errorf("heal %s: %v", l.proxy.Name, err)
		}
	}
}

// cut closes all connections and refuses new ones.
func (l *link) cut(t *testing.T) (heal func()) {
	l.proxy.Stop()
	return func() {
		if err := l.proxy.Start(); err != nil {
			t.Errorf("mend %s: %v", l.proxy.Name, err)
		}
	}
}
