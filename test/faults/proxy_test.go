package faults

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

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
	return l.toxic(t, "hang", `{"name":"hang","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
}

// slow delays what comes back by about so long.
func (l *link) slow(t *testing.T, d time.Duration) (heal func()) {
	return l.toxic(t, "slow", fmt.Sprintf(
		`{"name":"slow","type":"latency","stream":"downstream","attributes":{"latency":%d,"jitter":%d}}`, d.Milliseconds(), d.Milliseconds()/4))
}

func (l *link) toxic(t *testing.T, name, text string) (heal func()) {
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
		t.Errorf("harm %s: %v", l.proxy.Name, err)
		return func() {}
	}
	return func() {
		if err := l.proxy.Toxics.RemoveToxic(context.Background(), name); err != nil {
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
