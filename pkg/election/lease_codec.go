package election

import (
	"math"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leaderbridge/leaderbridge/pkg/election/internal/core"
)

// What a Lease's spec has no field for travels in annotations of the Lease.
// Plain client-go candidates leave them alone, also when they take it over.
const (
	// AnnotationEpoch holds the greatest epoch known to whoever wrote the
	// Lease, in decimal.
	AnnotationEpoch = "leaderbridge.io/epoch"
	// AnnotationEpochAcquired holds the acquireTime of the term that the epoch
	// belongs to (RFC 3339, microseconds). When it differs from the Lease's
	// acquireTime, the present term has another epoch, not yet written here.
	AnnotationEpochAcquired = "leaderbridge.io/epoch-acquired"
	// AnnotationPreferredHolder names the candidate that others should let
	// take the lead, for a moment. The spec's preferredHolder is another
	// thing: it belongs to coordinated election and needs a strategy.
	AnnotationPreferredHolder = "leaderbridge.io/preferred-holder"
)

const epochAcquiredFormat = "2006-01-02T15:04:05.000000Z07:00"

// observe reads a Lease. Every field of it may be absent or odd: another
// program may have written it.
func observe(lease *coordinationv1.Lease) Observation {
	return Observation{
		Exists:   true,
		UID:      string(lease.UID),
		Revision: revision(lease.ResourceVersion),
		Record:   decodeLease(lease),
		Handle:   lease,
	}
}

// revision is zero, which means unknown, when the resourceVersion is no
// number. It is one on every server since KEP-5504 made them comparable.
func revision(resourceVersion string) uint64 {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func decodeLease(lease *coordinationv1.Lease) Record {
	spec := &lease.Spec
	var r Record
	if spec.HolderIdentity != nil {
		r.Holder = *spec.HolderIdentity
	}
	// Zero and less is refused by API servers, but not by every fake: it
	// protects nobody and counts as absent.
	if spec.LeaseDurationSeconds != nil && *spec.LeaseDurationSeconds > 0 {
		r.Duration = time.Duration(*spec.LeaseDurationSeconds) * time.Second
	}
	r.Acquired = microTime(spec.AcquireTime)
	r.Renewed = microTime(spec.RenewTime)
	if spec.LeaseTransitions != nil {
		r.Transitions = max(int(*spec.LeaseTransitions), 0)
		r.HasTransitions = true
	}
	if spec.Strategy != nil {
		r.Strategy = string(*spec.Strategy)
	}
	if spec.PreferredHolder != nil {
		r.PreferredHolder = *spec.PreferredHolder
	}
	if len(lease.Annotations) > 0 { // most Leases have none, and failing to parse costs memory
		decodeAnnotations(lease.Annotations, &r)
	}
	return r
}

// decodeAnnotations reads ours. One that cannot be read says nothing, as if it
// were absent.
func decodeAnnotations(annotations map[string]string, r *Record) {
	if epoch, err := strconv.ParseUint(annotations[AnnotationEpoch], 10, 64); err == nil && epoch > 0 {
		r.Epoch = epoch
		if t, err := time.Parse(time.RFC3339, annotations[AnnotationEpochAcquired]); err == nil {
			r.EpochAcquired = core.StoredTime(t)
		}
	}
	r.Preferred = annotations[AnnotationPreferredHolder]
}

func microTime(t *metav1.MicroTime) time.Time {
	if t == nil {
		return time.Time{}
	}
	return core.StoredTime(t.Time)
}

// encodeLease writes the record into a Lease, the spec as client-go's
// resourcelock does, and leaves everything else of the Lease alone.
func encodeLease(r Record, lease *coordinationv1.Lease) error {
	if err := r.Storable(); err != nil {
		return err
	}
	spec := coordinationv1.LeaseSpec{
		HolderIdentity: &r.Holder,
		AcquireTime:    toMicroTime(r.Acquired),
		RenewTime:      toMicroTime(r.Renewed),
	}
	if seconds := r.Duration / time.Second; seconds > 0 {
		spec.LeaseDurationSeconds = new(int32(seconds)) // #nosec G115 -- checked by Storable
	}
	if r.HasTransitions {
		// A counter at its end stays there: a negative one would be refused,
		// and nobody could lead any more.
		spec.LeaseTransitions = new(int32(min(max(r.Transitions, 0), math.MaxInt32)))
	}
	if r.Strategy != "" {
		spec.Strategy = new(coordinationv1.CoordinatedLeaseStrategy(r.Strategy))
	}
	if r.PreferredHolder != "" {
		spec.PreferredHolder = &r.PreferredHolder
	}
	lease.Spec = spec

	var epoch, acquired string
	if r.Epoch > 0 {
		epoch = strconv.FormatUint(r.Epoch, 10)
		if t := core.StoredTime(r.EpochAcquired); !t.IsZero() {
			acquired = t.Format(epochAcquiredFormat)
		}
	}
	annotate(lease, AnnotationEpoch, epoch)
	annotate(lease, AnnotationEpochAcquired, acquired)
	annotate(lease, AnnotationPreferredHolder, r.Preferred)
	return nil
}

// annotate sets an annotation, or removes it when the value is empty.
func annotate(lease *coordinationv1.Lease, key, value string) {
	if value == "" {
		delete(lease.Annotations, key)
		return
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[key] = value
}

func toMicroTime(t time.Time) *metav1.MicroTime {
	if t = core.StoredTime(t); t.IsZero() {
		return nil
	}
	return &metav1.MicroTime{Time: t}
}

// ObserveLease reads a Lease that came from a list or a watch, for a Watcher.
// The observation is no base for an update.
func ObserveLease(lease *coordinationv1.Lease) Observation {
	o := observe(lease)
	o.Handle = nil
	return o
}
