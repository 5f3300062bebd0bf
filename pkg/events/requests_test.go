package events_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

func TestSentByServer(t *testing.T) {
	for name, tt := range map[string]struct {
		reply  string
		header nats.Header
		want   bool
	}{
		"a client's request":         {"_INBOX.x.1", nil, false},
		"with a trace":               {"_INBOX.x.1", nats.Header{"traceparent": {"00-1-2-01"}}, false},
		"a leader's notice":          {"", nil, false},
		"a leader's refusal":         {"", nats.Header{"Nats-Service-Error-Code": {"409"}}, false},
		"what a consumer delivers":   {"$JS.ACK.LEADERBRIDGE.c.1.7.1.0.0", nil, true},
		"a request of flow control":  {"$JS.FC.LEADERBRIDGE.c.x", nats.Header{"Status": {"100"}}, true},
		"a heartbeat":                {"", nats.Header{"Status": {"100"}}, true},
		"what a direct get answers":  {"", nats.Header{"Nats-Stream": {"KV_leaderbridge_leaders"}}, true},
		"that there is no responder": {"", nats.Header{"Status": {"503"}}, true},
	} {
		if got := events.SentByServer(tt.reply, tt.header); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}
