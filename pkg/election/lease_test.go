package election_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/election/locktest"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/tcpproxy"
)

const leasePatience = 30 * time.Second

func leaseClient(t *testing.T, config *rest.Config) coordinationv1client.CoordinationV1Interface {
	t.Helper()
	client, err := election.NewLeaseClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func leaseLock(t *testing.T, config *rest.Config, namespace, name string, opts ...election.LeaseOption) election.Lock {
	t.Helper()
	l, err := election.NewLeaseLock(leaseClient(t, config), namespace, name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func heldByA() election.Record {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return election.Record{Holder: "a", Duration: 15 * time.Second, Acquired: now, Renewed: now, HasTransitions: true}
}

// through leads to the API server by way of a proxy.
func through(t *testing.T, config *rest.Config) (*rest.Config, *tcpproxy.Proxy) {
	t.Helper()
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := tcpproxy.Start(t, server.Host)
	config = rest.CopyConfig(config)
	config.Host = "https://" + proxy.Addr()
	return config, proxy
}

func TestLeaseConformance(t *testing.T) {
	for name, shared := range map[string]bool{"own-watch": false, "shared-watch": true} {
		t.Run(name, func(t *testing.T) { leaseConformance(t, shared) })
	}
}

func leaseConformance(t *testing.T, shared bool) {
	api := kubeenv.Shared(t)
	config, proxy := through(t, api.Config())
	admin := leaseClient(t, api.Config())
	locktest.Run(t, func(t *testing.T) locktest.Fixture {
		t.Helper()
		const name = "the.lock"
		namespace := api.Namespace(t)
		leases := admin.Leases(namespace)
		return locktest.Fixture{
			Open: func(t *testing.T) election.Lock {
				t.Helper()
				if shared {
					watch := election.NewLeaseWatch(leaseClient(t, config), namespace)
					return leaseLock(t, config, namespace, name, election.WithLeaseWatch(watch))
				}
				return leaseLock(t, config, namespace, name)
			},
			Delete: func(t *testing.T) {
				t.Helper()
				if err := leases.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			},
			Overwrite: func(t *testing.T, holder string) {
				t.Helper()
				// A patch needs no resourceVersion. An update of a Lease does.
				patch, err := json.Marshal(map[string]any{"spec": map[string]any{"holderIdentity": holder}})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := leases.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			},
			Disturb: func(*testing.T) { proxy.Cut() },
			Hang: func(*testing.T) func() {
				proxy.Freeze()
				return proxy.Thaw
			},
		}
	})
}

func TestLeaseSurvivesARestartOfTheServer(t *testing.T) {
	api := kubeenv.Start(t)
	namespace := api.Namespace(t)
	l := leaseLock(t, api.Config(), namespace, "lock")
	o, err := l.Create(t.Context(), heldByA())
	if err != nil {
		t.Fatal(err)
	}
	watch, err := l.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	api.Kill(t)
	waitClosed(t, watch)
	if _, err := l.Update(t.Context(), o, heldByA()); err == nil || errors.Is(err, election.ErrConflict) || errors.Is(err, election.ErrRefused) {
		t.Errorf("update while the server is down: %v", err)
	} else if strings.Contains(err.Error(), "->") {
		t.Errorf("the error reads different each time: %v", err)
	}
	api.Restart(t)
	testenv.Eventually(t, leasePatience, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		o, err = l.Update(ctx, o, heldByA())
		return err
	})
	watch, err = l.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first := <-watch; first.Revision != o.Revision {
		t.Errorf("the new watch begins with %+v, want revision %d", first, o.Revision)
	}
}

func waitClosed(t *testing.T, watch <-chan election.Observation) {
	t.Helper()
	timeout := time.After(leasePatience)
	for {
		select {
		case _, open := <-watch:
			if !open {
				return
			}
		case <-timeout:
			t.Fatal("the watch is still open")
		}
	}
}

// What the lock relies on, and what fakes get wrong.
func TestLeaseServerFacts(t *testing.T) {
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	leases := leaseClient(t, api.Config()).Leases(namespace)
	create := func(name string, spec coordinationv1.LeaseSpec) error {
		_, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
		return err
	}
	released := coordinationv1.LeaseSpec{HolderIdentity: new(""), LeaseDurationSeconds: new(int32(1)), LeaseTransitions: new(int32(3))}
	if err := create("released", released); err != nil {
		t.Errorf("a released Lease: %v", err)
	}
	if err := create("empty", coordinationv1.LeaseSpec{}); err != nil {
		t.Errorf("an empty Lease: %v", err)
	}
	for why, spec := range map[string]coordinationv1.LeaseSpec{
		"must be greater than 0":             {LeaseDurationSeconds: new(int32(0))},
		"must be greater than or equal to 0": {LeaseTransitions: new(int32(-1))},
	} {
		if err := create("bad", spec); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), why) {
			t.Errorf("%+v: %v, want it refused: %s", spec, err, why)
		}
	}

	lease, err := leases.Get(t.Context(), "released", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{})
	if err != nil || same.ResourceVersion != lease.ResourceVersion {
		t.Errorf("an update that changes nothing: resourceVersion %s after %s, %v", same.ResourceVersion, lease.ResourceVersion, err)
	}
	lease.ResourceVersion = ""
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an update without resourceVersion: %v, want it refused", err)
	}
}

func TestLeaseKeepsWhatOthersPutThere(t *testing.T) {
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	leases := leaseClient(t, api.Config()).Leases(namespace)
	l := leaseLock(t, api.Config(), namespace, "lock", election.WithLeaseLabels(map[string]string{"app": "ours"}))
	if _, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name:            "lock",
		Labels:          map[string]string{"app": "theirs", "team": "x"},
		Annotations:     map[string]string{"note": "y"},
		Finalizers:      []string{"example.org/f"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "u"}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	o, err := l.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := election.LeaseLabels(o)["app"]; got != "theirs" {
		t.Errorf("label of the foreign application: %q", got)
	}
	r := heldByA()
	r.Epoch, r.EpochAcquired = 7, r.Acquired
	if _, err = l.Update(t.Context(), o, r); err != nil {
		t.Fatal(err)
	}

	// A plain client-go candidate keeps what is ours in turn.
	plain := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lock"}, Client: leaseClient(t, api.Config())}
	record, _, err := plain.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if record.HolderIdentity != "a" || record.LeaseDurationSeconds != 15 || !record.AcquireTime.Time.Equal(r.Acquired) {
		t.Errorf("client-go reads %+v", record)
	}
	record.HolderIdentity = "plain"
	record.AcquireTime = metav1.Now()
	if err := plain.Update(t.Context(), *record); err != nil {
		t.Fatal(err)
	}
	if o, err = l.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o.Record.Holder != "plain" || o.Record.Epoch != 7 || !o.Record.EpochAcquired.Equal(r.Acquired) || o.Record.Acquired.Equal(r.Acquired) {
		t.Errorf("after client-go's update: %+v", o.Record)
	}

	lease, err := leases.Get(t.Context(), "lock", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Labels["app"] != "ours" || lease.Labels["team"] != "x" || lease.Annotations["note"] != "y" ||
		len(lease.Finalizers) != 1 || len(lease.OwnerReferences) != 1 {
		t.Errorf("left of the Lease: %+v", lease.ObjectMeta)
	}
	if got := lease.Annotations[election.AnnotationEpochAcquired]; got != r.Acquired.Format("2006-01-02T15:04:05.000000Z07:00") {
		t.Errorf("epoch-acquired: %q", got)
	}
}

func leaseRule(name string, verbs ...string) rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: verbs}
	if name != "" {
		rule.ResourceNames = []string{name}
	}
	return rule
}

// The four verbs are enough, three of them for the one name only.
func TestLeaseNeedsFewRights(t *testing.T) {
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	const user = "narrow"
	l := leaseLock(t, api.User(t, user), namespace, "lock")
	api.Allow(t, namespace, user, leaseRule("lock", "get", "update", "watch"), leaseRule("", "create"))

	watch, err := l.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o, err := l.Create(t.Context(), heldByA())
	if err != nil {
		t.Fatal(err)
	}
	if o, err = l.Update(t.Context(), o, heldByA()); err != nil {
		t.Fatal(err)
	}
	if read, err := l.Read(t.Context()); err != nil || read.Revision != o.Revision {
		t.Fatalf("read %+v, %v", read, err)
	}
	for seen := range watch {
		if seen.Revision == o.Revision {
			break
		}
	}
	base, err := leaseLock(t, api.Config(), namespace, "other").Create(t.Context(), heldByA())
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range requestErrors(t, leaseLock(t, api.User(t, user), namespace, "other"), base) {
		if name != "create" && !errors.Is(err, election.ErrRefused) {
			t.Errorf("%s of another Lease: %v, want it refused", name, err)
		}
	}
}

func requestErrors(t *testing.T, l election.Lock, base election.Observation) map[string]error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), leasePatience)
	t.Cleanup(cancel)
	errs := map[string]error{}
	_, errs["get"] = l.Read(ctx)
	_, errs["update"] = l.Update(ctx, base, heldByA())
	_, errs["watch"] = l.Watch(ctx)
	_, errs["create"] = l.Create(ctx, heldByA())
	return errs
}

func TestLeaseErrorsNameWhatIsMissing(t *testing.T) {
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	admin := leaseLock(t, api.Config(), namespace, "lock")
	base, err := admin.Create(t.Context(), heldByA())
	if err != nil {
		t.Fatal(err)
	}
	oneLine := func(t *testing.T, err error, parts ...string) {
		t.Helper()
		if err == nil {
			t.Error("no error")
			return
		}
		for _, part := range append(parts, "lease ") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		if strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
			t.Errorf("not one readable line: %q", err)
		}
	}

	t.Run("forbidden", func(t *testing.T) {
		l := leaseLock(t, api.User(t, "nobody-special"), namespace, "lock")
		for verb, err := range requestErrors(t, l, base) {
			oneLine(t, err, verb+" lease "+namespace+"/lock: refused", fmt.Sprintf(`verb %q`, verb),
				"leases.coordination.k8s.io", fmt.Sprintf("namespace %q", namespace), `user "nobody-special"`)
			var status *apierrors.StatusError
			if !errors.Is(err, election.ErrRefused) || errors.Is(err, election.ErrConflict) || !errors.As(err, &status) {
				t.Errorf("%s: %v", verb, err)
			}
		}
	})
	t.Run("unauthorized", func(t *testing.T) {
		config := rest.AnonymousClientConfig(api.Config())
		config.BearerToken = "made-up"
		for verb, err := range requestErrors(t, leaseLock(t, config, namespace, "lock"), base) {
			oneLine(t, err, verb+" lease", "refused", "credentials", "token")
			if !errors.Is(err, election.ErrRefused) {
				t.Errorf("%s: %v", verb, err)
			}
			if strings.Contains(err.Error(), "made-up") {
				t.Errorf("%s: the error shows the token: %v", verb, err)
			}
		}
	})
	t.Run("no namespace", func(t *testing.T) {
		l := leaseLock(t, api.Config(), "nowhere", "lock")
		if o, err := l.Read(t.Context()); err != nil || o.Exists {
			t.Errorf("read %+v, %v", o, err)
		}
		_, err := l.Create(t.Context(), heldByA())
		oneLine(t, err, `namespace "nowhere" does not exist`)
		if errors.Is(err, election.ErrRefused) || errors.Is(err, election.ErrConflict) {
			t.Errorf("a missing namespace may come: %v", err)
		}
	})
	t.Run("namespace being deleted", func(t *testing.T) {
		client := kubernetes.NewForConfigOrDie(api.Config())
		ending := api.Namespace(t)
		if err := client.CoreV1().Namespaces().Delete(t.Context(), ending, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		l := leaseLock(t, api.Config(), ending, "lock")
		testenv.Eventually(t, leasePatience, func() error {
			_, err := l.Create(t.Context(), heldByA())
			if err == nil || !strings.Contains(err.Error(), "is being deleted") {
				return fmt.Errorf("create: %w", err)
			}
			oneLine(t, err, ending)
			if errors.Is(err, election.ErrRefused) || errors.Is(err, election.ErrConflict) {
				t.Errorf("a namespace may come back: %v", err)
			}
			return nil
		})
	})
	t.Run("invalid", func(t *testing.T) {
		r := heldByA()
		r.Preferred = strings.Repeat("b", 300<<10) // more than annotations may hold
		_, err := admin.Update(t.Context(), base, r)
		oneLine(t, err, "refused", "metadata.annotations")
		if !errors.Is(err, election.ErrRefused) {
			t.Errorf("invalid record: %v", err)
		}
	})
	t.Run("not an API server", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(server.Close)
		for verb, err := range requestErrors(t, leaseLock(t, &rest.Config{Host: server.URL}, namespace, "lock"), base) {
			oneLine(t, err, "Kubernetes API server?")
			if errors.Is(err, election.ErrRefused) || errors.Is(err, election.ErrConflict) {
				t.Errorf("%s: %v", verb, err)
			}
		}
	})
}

// roundTripper lets a test stand in the middle.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(code int, header http.Header) *http.Response {
	return &http.Response{StatusCode: code, Header: header, Body: http.NoBody, ProtoMajor: 1, ProtoMinor: 1}
}

// client-go repeats a write that was answered with Retry-After. When the first
// was made all the same, the second meets its own work.
func TestLeaseRepeatedWriteIsNoConflict(t *testing.T) {
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	var spoil atomic.Bool
	config := api.Config()
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := inner.RoundTrip(r)
			if err == nil && r.Method != http.MethodGet && spoil.CompareAndSwap(true, false) {
				_ = response.Body.Close()
				return answer(http.StatusGatewayTimeout, http.Header{"Retry-After": {"0"}}), nil
			}
			return response, err
		})
	})
	l := leaseLock(t, config, namespace, "lock")
	check := func(what string, r election.Record, err error) election.Observation {
		t.Helper()
		if err == nil || errors.Is(err, election.ErrConflict) || errors.Is(err, election.ErrRefused) {
			t.Fatalf("%s: %v, want an outcome that is unknown", what, err)
		}
		o, err := l.Read(t.Context())
		if err != nil || !o.Record.Equal(r) {
			t.Fatalf("%s: it was not made after all: %+v, %v", what, o, err)
		}
		return o
	}
	r := heldByA()
	spoil.Store(true)
	_, err := l.Create(t.Context(), r)
	o := check("create", r, err)
	r = heldByA()
	spoil.Store(true)
	_, err = l.Update(t.Context(), o, r)
	check("update", r, err)
}

func TestLeaseClientObeysRetryAfterWithinItsContext(t *testing.T) {
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	var throttle atomic.Int32
	config := api.Config()
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if throttle.Add(-1) >= 0 {
				return answer(http.StatusTooManyRequests, http.Header{"Retry-After": {"1"}}), nil
			}
			return inner.RoundTrip(r)
		})
	})
	l := leaseLock(t, config, namespace, "lock")
	throttle.Store(2)
	start := time.Now()
	if _, err := l.Create(t.Context(), heldByA()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 2*time.Second {
		t.Errorf("two answers of Retry-After: 1 were waited out in %s", took)
	}
	throttle.Store(100)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	start = time.Now()
	_, err := l.Read(ctx)
	if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 3*time.Second {
		t.Errorf("read under throttling: %v after %s", err, took)
	}
}

// Packets to the API server vanish, and nobody is told (kubernetes/kubernetes#70971).
func TestLeaseClientLeavesADeadConnection(t *testing.T) {
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	config, proxy := through(t, api.Config())
	l := leaseLock(t, config, namespace, "lock")
	o, err := l.Create(t.Context(), heldByA())
	if err != nil {
		t.Fatal(err)
	}
	watch, err := l.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	proxy.Blackhole()
	start := time.Now()
	testenv.Eventually(t, leasePatience, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // half a renew deadline
		defer cancel()
		_, err := l.Update(ctx, o, heldByA())
		if errors.Is(err, election.ErrConflict) { // an earlier one was made
			return nil
		}
		return err
	})
	if took := time.Since(start); took > 9*time.Second {
		t.Errorf("a renewal took %s, which is too long for a renew deadline of 10s", took)
	}
	waitClosed(t, watch)
	t.Logf("renewed and noticed after %s", time.Since(start).Round(10*time.Millisecond))
}

func TestLeaseClientPicksUpANewToken(t *testing.T) {
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	client := kubernetes.NewForConfigOrDie(api.Config())
	if _, err := client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bridge"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "bridge", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	user := "system:serviceaccount:" + namespace + ":bridge"
	api.Allow(t, namespace, user, leaseRule("", "get", "create", "update", "watch"))

	file := filepath.Join(t.TempDir(), "token")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("expired")
	config := rest.AnonymousClientConfig(api.Config())
	config.BearerTokenFile = file
	l := leaseLock(t, config, namespace, "lock")
	if _, err := l.Create(t.Context(), heldByA()); !errors.Is(err, election.ErrRefused) {
		t.Fatalf("with an expired token: %v", err)
	}
	write(token.Status.Token)
	testenv.Eventually(t, leasePatience, func() error {
		_, err := l.Create(t.Context(), heldByA())
		return err
	})
	l = leaseLock(t, config, namespace, "lock")
	if o, err := l.Read(t.Context()); err != nil || !o.Exists {
		t.Fatalf("read %+v, %v", o, err)
	}
}

func TestLeaseClientIsTheElectionsOwn(t *testing.T) {
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	var seen atomic.Pointer[http.Request]
	config := api.Config()
	config.UserAgent, config.Timeout, config.QPS, config.Burst = "bridge/1", time.Second, 1, 1
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			seen.Store(r)
			return inner.RoundTrip(r)
		})
	})
	before := rest.CopyConfig(config)
	l := leaseLock(t, config, namespace, "lock")
	if config.QPS != before.QPS || config.Timeout != before.Timeout || config.Dial != nil || config.UserAgent != before.UserAgent {
		t.Error("the caller's config was changed")
	}
	watch, err := l.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	o, err := l.Create(t.Context(), heldByA())
	for range 50 {
		if err == nil {
			o, err = l.Update(t.Context(), o, heldByA())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("51 writes took %s: is there a rate limit?", took)
	}
	r := seen.Load()
	if got := r.Header.Get("Content-Type"); got != "application/vnd.kubernetes.protobuf" {
		t.Errorf("content type %q", got)
	}
	if got := r.UserAgent(); got != "bridge/1/leader-election" {
		t.Errorf("user agent %q", got)
	}
	// The watch outlives the config's timeout of a second.
	for time.Since(start) < 1500*time.Millisecond {
		if _, open := <-watch; !open {
			t.Fatal("the watch was cut by the client's timeout")
		}
		if o, err = l.Update(t.Context(), o, heldByA()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLeaseLockChecksItsNames(t *testing.T) {
	for _, name := range [][2]string{{"", "lock"}, {"ns", ""}, {"a.b", "lock"}, {"ns", "Lock"}, {"ns", "a_b"}, {"ns", "a/b"}, {"ns", strings.Repeat("x", 254)}} {
		if _, err := election.NewLeaseLock(nil, name[0], name[1]); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if l, err := election.NewLeaseLock(nil, "prod", "a.b-c"); err != nil || l.String() != "lease prod/a.b-c" {
		t.Errorf("%v, %v", l, err)
	}
}

// Two applications that share a Lease by mistake: the log says who has it.
// stacklok/toolhive-registry-server#505
func TestForeignHolderIsNamedWithItsLabels(t *testing.T) {
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	holder, seconds, now := "theirs-0_1", int32(3600), metav1.NowMicro()
	if _, err := leaseClient(t, api.Config()).Leases(namespace).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "lock", Labels: map[string]string{"app": "theirs"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	out := make(lines, 16)
	e, err := election.New(leaseLock(t, api.Config(), namespace, "lock"), election.Options{
		Identity: "ours-0_2", Lead: func(context.Context, *election.Term) error { return nil },
		Logger: slog.New(slog.NewTextHandler(out, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	select {
	case line := <-out:
		if !strings.Contains(line, "holder="+holder) || !strings.Contains(line, "app:theirs") {
			t.Errorf("the log says %s", line)
		}
	case <-time.After(30 * time.Second):
		t.Error("the log says nothing")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// lines carries what is logged, as far as there is room.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}
