package election

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// LeaseOption changes how a Lease lock works.
type LeaseOption func(*leaseLock)

// WithLeaseLabels puts labels on the Lease with every write, so that people,
// and other programs that use the same Lease by mistake, can tell whose it is.
// Other labels are kept.
func WithLeaseLabels(labels map[string]string) LeaseOption {
	return func(l *leaseLock) { l.labels = maps.Clone(labels) }
}

// leaseLock is a Lock on a Kubernetes Lease. It keeps no state.
type leaseLock struct {
	client    coordinationv1client.LeasesGetter
	namespace string
	name      string
	labels    map[string]string
	shared    *LeaseWatch // nil for a watch of its own
}

// NewLeaseLock returns a Lock on the Kubernetes Lease namespace/name. It makes
// no request. Make the client with NewLeaseClient, unless there is a reason
// not to.
//
// The record is stored as client-go's resourcelock stores it, so that plain
// client-go candidates can stand in the same election. What a Lease has no
// field for goes into annotations. An update keeps foreign labels,
// annotations, owner references and finalizers of the Lease it replaces.
//
// It needs the verbs get, create, update and watch on leases in the group
// coordination.k8s.io; get, update and watch may be restricted to the one name
// with resourceNames.
//
// Errors: a 409 of any kind and an update of a Lease that is gone are
// ErrConflict. 400, 401, 403, 405, 413 and 422 are ErrRefused. That says only that the
// write was not made. It is worth a report at once, and it is not the end of a
// term or a candidacy: a token may be renewed and a permission granted
// meanwhile. A namespace that is missing or being deleted is neither, since it
// may come. The error's text is one line, and errors.As finds the API server's
// own *errors.StatusError in it.
func NewLeaseLock(client coordinationv1client.LeasesGetter, namespace, name string, opts ...LeaseOption) (Lock, error) {
	if problems := validation.ValidateNamespaceName(namespace, false); len(problems) > 0 {
		return nil, fmt.Errorf("lease namespace %q: %s", namespace, strings.Join(problems, "; "))
	}
	if problems := validation.NameIsDNSSubdomain(name, false); len(problems) > 0 {
		return nil, fmt.Errorf("lease name %q: %s", name, strings.Join(problems, "; "))
	}
	l := &leaseLock{client: client, namespace: namespace, name: name}
	for _, o := range opts {
		o(l)
	}
	return l, nil
}

// LeaseLabels returns the labels of the Lease that a Lease lock observed, and
// nil for any other observation. They tell which application a foreign holder
// belongs to. Do not change them.
func LeaseLabels(o Observation) map[string]string {
	if lease, ok := o.Handle.(*coordinationv1.Lease); ok {
		return lease.Labels
	}
	return nil
}

// String names the Lease.
func (l *leaseLock) String() string { return "lease " + l.namespace + "/" + l.name }

// Read gets the Lease. Without a resourceVersion the API server answers a get
// from etcd, by quorum, and not from its watch cache.
func (l *leaseLock) Read(ctx context.Context) (Observation, error) {
	lease, err := l.client.Leases(l.namespace).Get(ctx, l.name, metav1.GetOptions{})
	switch {
	case err == nil:
		return observe(lease), nil
	case isAbsent(err):
		return Observation{}, nil
	default:
		return Observation{}, l.fail("get", err, 1)
	}
}

// Create posts a Lease.
func (l *leaseLock) Create(ctx context.Context, r Record) (Observation, error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.name}}
	return l.write(ctx, "create", r, lease, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return l.client.Leases(l.namespace).Create(ctx, lease, metav1.CreateOptions{})
	})
}

// Update puts the Lease that base was read from, with the record in it.
func (l *leaseLock) Update(ctx context.Context, base Observation, r Record) (Observation, error) {
	read, ok := base.Handle.(*coordinationv1.Lease)
	if !ok || !base.Exists || read.Namespace != l.namespace || read.Name != l.name {
		return Observation{}, l.error("update", "the state it is based on is not one of this Lease", ErrConflict)
	}
	// The copy carries uid and resourceVersion, which the server compares, and
	// everything that is not ours.
	lease := read.DeepCopy()
	return l.write(ctx, "update", r, lease, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return l.client.Leases(l.namespace).Update(ctx, lease, metav1.UpdateOptions{})
	})
}

func (l *leaseLock) write(ctx context.Context, verb string, r Record, lease *coordinationv1.Lease,
	send func(context.Context) (*coordinationv1.Lease, error),
) (Observation, error) {
	if err := encodeLease(r, lease); err != nil {
		return Observation{}, l.error(verb, err.Error(), ErrRefused)
	}
	if len(l.labels) > 0 && lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	maps.Copy(lease.Labels, l.labels)

	// client-go repeats a request, a write too, when the server answers 429 or
	// 5xx with Retry-After. The conflict or refusal that the repetition meets
	// says nothing about the first one: that may be what it conflicts with.
	var sent atomic.Int32
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Add(1) }})
	made, err := send(ctx)
	if err != nil {
		return Observation{}, l.fail(verb, err, int(sent.Load()))
	}
	return observe(made), nil
}

// isAbsent tells a Lease that is not there from a server that knows no Leases:
// a 404 of anything else than a Kubernetes API is no news about the election.
func isAbsent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
