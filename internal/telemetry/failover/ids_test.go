package failover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ sdktrace.IDGenerator = IDGenerator{}

// The derivation is a contract: docs/tracing.md gives this very example.
func TestTraceIDIsWhatTheDocumentSays(t *testing.T) {
	const source, epoch = "/clusters/default/namespaces/prod/leases/scheduler", 7
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s#%d", source, epoch)))
	if got, want := TraceID(source, epoch).String(), hex.EncodeToString(sum[:16]); got != want {
		t.Errorf("trace id %s, want %s", got, want)
	}
	if got, want := RootSpanID(source, epoch).String(), hex.EncodeToString(sum[16:24]); got != want {
		t.Errorf("root span id %s, want %s", got, want)
	}
	if got, want := TraceID(source, epoch).String(), documentedTraceID; got != want {
		t.Errorf("trace id %s, want %s", got, want)
	}
}

const documentedTraceID = "25da4090ac50bf91a7af7a4925c06920"

func TestDerivedIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := rapid.StringMatching(`/clusters/[a-z]{1,5}/namespaces/[a-z]{1,5}/leases/[a-z.]{1,5}`)
		epoch := rapid.Uint64Range(1, 1<<31-1)
		s1, s2, e1, e2 := source.Draw(t, "s1"), source.Draw(t, "s2"), epoch.Draw(t, "e1"), epoch.Draw(t, "e2")
		a, b := TraceID(s1, e1), TraceID(s2, e2)
		if !a.IsValid() || !RootSpanID(s1, e1).IsValid() {
			t.Fatal("zero id")
		}
		if same := s1 == s2 && e1 == e2; (a == b) != same || (RootSpanID(s1, e1) == RootSpanID(s2, e2)) != same {
			t.Fatalf("%s#%d and %s#%d: %s and %s", s1, e1, s2, e2, a, b)
		}
	})
}

func TestOtherSpansHaveRandomIDs(t *testing.T) {
	a, s := IDGenerator{}.NewIDs(context.Background())
	b, r := IDGenerator{}.NewIDs(context.Background())
	if a == b || s == r || !a.IsValid() || !s.IsValid() {
		t.Errorf("%s/%s and %s/%s", a, s, b, r)
	}
	if c := (IDGenerator{}).NewSpanID(context.Background(), a); c == s || !c.IsValid() {
		t.Errorf("span id %s after %s", c, s)
	}
}
