package events

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What can go wrong between a program and its log. Only ErrOutcomeUnknown
// leaves open whether an append was made; it was not after all the others, as
// far as [Log.Append] does not say otherwise.
var (
	// ErrOutcomeUnknown: no answer came. Read the tail to learn more; as long
	// as the append may still be on its way, its condition and the one of the
	// next append see to it that only one of the two is made.
	ErrOutcomeUnknown = errors.New("it is not known whether the append was made")
	// ErrUnavailable: NATS, JetStream or the stream's leader is away. It
	// passes by itself: try again later.
	ErrUnavailable = errors.New("the log cannot be reached now")
	// ErrNoStream: the stream is not there. [Log.Ensure] creates it.
	ErrNoStream = errors.New("the log's stream does not exist")
	// ErrNoJetStream: nobody answers for JetStream at all.
	ErrNoJetStream = errors.New("JetStream does not answer: it is not enabled on the servers or for this account, or the domain is another")
	// ErrFull: the stream, the account or the disk has no room.
	ErrFull = errors.New("the log has no room: raise the limits of the stream or the account, or free disk space")
	// ErrForbidden: the server denies the permission that the error names.
	ErrForbidden = errors.New("NATS denies permission")
	// ErrMisfit: the stream, the bucket or the server is not as the log needs
	// it, and somebody has to change it.
	ErrMisfit = errors.New("the log's stream or bucket is not usable as it is")
	// ErrRefused: the request is not acceptable, and never will be.
	ErrRefused = errors.New("refused for good")
)

// The server's error codes that jetstream has no name for; see errors.json in
// the server's source.
const (
	codeAccountResourcesExceeded jetstream.ErrorCode = 10002
	codeNoPeers                  jetstream.ErrorCode = 10005
	codeClusterNotAvailable      jetstream.ErrorCode = 10008
	codeInsufficientResources    jetstream.ErrorCode = 10023
	codeMemoryExceeded           jetstream.ErrorCode = 10028
	codeStorageExceeded          jetstream.ErrorCode = 10047
	codeStreamMismatch           jetstream.ErrorCode = 10060
	codeSubjectsOverlap          jetstream.ErrorCode = 10065
	codeReplicasNotSupported     jetstream.ErrorCode = 10074
	codeStoreFailed              jetstream.ErrorCode = 10077
	codeSealed                   jetstream.ErrorCode = 10109
	codeStreamOffline            jetstream.ErrorCode = 10118
	codeStreamMaxBytes           jetstream.ErrorCode = 10122
	codeDuplicateInProcess       jetstream.ErrorCode = 10158
	codeLastSequenceNotReady     jetstream.ErrorCode = 10163
	codeAtomicDisabled           jetstream.ErrorCode = 10174
	codeAtomicIncomplete         jetstream.ErrorCode = 10176
	codeAtomicUnsupportedHeader  jetstream.ErrorCode = 10177
	codeStreamOfflineReason      jetstream.ErrorCode = 10194
	codeAtomicDuplicate          jetstream.ErrorCode = 10201
	codeAtomicTooManyInflight    jetstream.ErrorCode = 10210
)

// codeOf returns the code of the server's refusal, and zero for an error that
// is none.
func codeOf(err error) jetstream.ErrorCode {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.ErrorCode
	}
	return 0
}

// kindOf finds the sentinel for an error that came out of the NATS client, or
// nil for one that is no failure of the log.
func kindOf(err error) error {
	switch codeOf(err) {
	case 0:
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant,
		codeAtomicDuplicate, codeDuplicateInProcess, codeLastSequenceNotReady:
		return ErrBehind
	case jetstream.JSErrCodeStreamNotFound:
		return ErrNoStream
	case jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount:
		return ErrNoJetStream
	case codeStoreFailed, codeAccountResourcesExceeded, codeInsufficientResources, codeMemoryExceeded,
		codeStorageExceeded, codeStreamMaxBytes:
		return ErrFull
	case codeClusterNotAvailable, codeNoPeers, codeStreamOffline, codeStreamOfflineReason,
		codeAtomicIncomplete, codeAtomicTooManyInflight:
		return ErrUnavailable
	case codeStreamMismatch, codeSealed, codeAtomicDisabled:
		return ErrMisfit
	default:
		return ErrRefused
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return ErrUnavailable
	case errors.Is(err, nats.ErrMaxPayload):
		return ErrRefused
	case errors.Is(err, nats.ErrConnectionDraining), errors.Is(err, nats.ErrReconnectBufExceeded):
		return ErrUnavailable
	default:
		// A deadline, a connection that broke or closed meanwhile, an answer
		// that cannot be read.
		return ErrOutcomeUnknown
	}
}

// explain finds the sentinel for a request to JetStream's API that failed. Such requests change nothing or can be repeated, so that their
// outcome is never in doubt.
func (a *attempt) explain(err error) error {
	if denied := a.denied(); denied != nil {
		return fmt.Errorf("%w: %w", ErrForbidden, denied)
	}
	kind := kindOf(err)
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		kind = ErrNoJetStream
	case errors.Is(kind, ErrOutcomeUnknown):
		kind = ErrUnavailable
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// explainAppend finds the sentinel for an append that failed. Where nobody
// answered, it asks the API why: "no responders" is all that NATS says when the
// stream is gone, has no leader, or JetStream is off.
func (a *attempt) explainAppend(ctx context.Context, err error) error {
	if denied := a.denied(); denied != nil {
		return fmt.Errorf("%w: %w", ErrForbidden, denied)
	}
	if !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, jetstream.ErrNoStreamResponse) {
		return fmt.Errorf("%w: %w", kindOf(err), err)
	}
	info, lookup := a.log.lookUp(ctx, a.log.opts.Stream)
	switch {
	case errors.Is(lookup, ErrNoStream), errors.Is(lookup, ErrNoJetStream):
		return lookup
	case lookup == nil && info.Cluster != nil && info.Cluster.Leader == "":
		return fmt.Errorf("%w: the stream %s has no leader", ErrUnavailable, a.log.opts.Stream)
	default:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
}
