package natskv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/leaderbridge/leaderbridge/pkg/election"
)

// DefaultBucket is the bucket that holds elections' locks.
const DefaultBucket = "leaderbridge_locks"

// Options describe an election's lock.
type Options struct {
	// Namespace and Name tell elections apart, with the rules that they have
	// for a Lease: a DNS label and a DNS subdomain.
	Namespace string
	Name      string
	// Bucket is the key-value bucket; DefaultBucket when empty.
	Bucket string
	// Replicas is the number of servers that keep the bucket, 1 to 5. Zero
	// makes a bucket with three in a cluster and with one otherwise, and
	// accepts any number in a bucket that exists.
	Replicas int
	// Logger gets the making of a bucket; nil for none.
	Logger *slog.Logger
}

var bucketName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// lock is an election.Lock. Its only state is that the bucket was found fit.
type lock struct {
	js       jetstream.JetStream
	conn     *nats.Conn
	log      *slog.Logger
	prefix   string // of JetStream's API, with its dot
	bucket   string
	stream   string
	key      string
	subject  string // that the bucket stores the key under
	publish  string // that a record is published to
	replicas int

	// fit is set while the bucket is known to exist and to fit.
	fit atomic.Bool
}

// New returns the lock of an election. It makes no request, so that a server
// which is not there yet is no reason to fail. The lock is safe for concurrent
// use and does not close the connection.
//
// Errors of its methods are one line each, and name what is missing: the
// connection, JetStream, the bucket's leader, a permission.
func New(js jetstream.JetStream, o Options) (election.Lock, error) {
	if problems := validation.ValidateNamespaceName(o.Namespace, false); len(problems) > 0 {
		return nil, fmt.Errorf("election namespace %q: %s", o.Namespace, strings.Join(problems, "; "))
	}
	if problems := validation.NameIsDNSSubdomain(o.Name, false); len(problems) > 0 {
		return nil, fmt.Errorf("election name %q: %s", o.Name, strings.Join(problems, "; "))
	}
	if o.Bucket == "" {
		o.Bucket = DefaultBucket
	}
	if !bucketName.MatchString(o.Bucket) {
		return nil, fmt.Errorf("lock bucket %q: use letters, digits, - and _ only", o.Bucket)
	}
	if o.Replicas < 0 || o.Replicas > 5 {
		return nil, fmt.Errorf("lock bucket replicas %d: use 1 to 5, or 0 to let the servers' number decide", o.Replicas)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &lock{
		js: js, conn: js.Conn(), log: o.Logger, prefix: apiPrefix(js.Options()),
		bucket: o.Bucket, stream: "KV_" + o.Bucket, replicas: o.Replicas,
		// Names never contain an underscore, so no two elections share a key.
		key: o.Namespace + "." + strings.ReplaceAll(o.Name, ".", "_"),
	}
	l.subject = "$KV." + l.bucket + "." + l.key
	l.publish = l.subject
	if l.prefix != jetstream.DefaultAPIPrefix {
		// Another domain or account takes records in behind its API, as it
		// does for every key-value client.
		l.publish = l.prefix + l.subject
	}
	return l, nil
}

func apiPrefix(o jetstream.JetStreamOptions) string {
	switch {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	default:
		return jetstream.DefaultAPIPrefix
	}
}

// String names the key.
func (l *lock) String() string { return "NATS key " + l.bucket + "/" + l.key }

// Read asks the bucket's leader for the record.
func (l *lock) Read(ctx context.Context) (election.Observation, error) {
	o, err := l.read(ctx)
	if err != nil {
		return election.Observation{}, l.fail("read", err)
	}
	if !o.Exists {
		// Where the mark of a deletion is, is nobody's business.
		return election.Observation{}, nil
	}
	return o, nil
}

func (l *lock) read(ctx context.Context) (election.Observation, error) {
	if err := l.ready(ctx); err != nil {
		return election.Observation{}, err
	}
	o, err := l.get(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		// The bucket has vanished, and the record with it. Candidates know
		// what to make of a record that vanished while it was held.
		l.fit.Store(false)
		if err := l.ready(ctx); err != nil {
			return election.Observation{}, err
		}
		o, err = l.get(ctx)
	}
	return o, err
}

// get reads the key's last message. jetstream.KeyValue would ask any replica
// of a bucket that allows direct gets.
func (l *lock) get(ctx context.Context) (election.Observation, error) {
	ask, err := json.Marshal(struct {
		LastFor string `json:"last_by_subj"`
	}{l.subject})
	if err != nil {
		return election.Observation{}, err
	}
	answer, err := l.request(ctx, l.prefix+"STREAM.MSG.GET."+l.stream, ask)
	if err != nil {
		return election.Observation{}, err
	}
	var got struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		return election.Observation{}, fmt.Errorf("the answer of JetStream cannot be read: %w", err)
	}
	switch {
	case got.Error != nil && got.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return election.Observation{}, nil
	case got.Error != nil:
		return election.Observation{}, got.Error
	case got.Message == nil:
		return election.Observation{}, errors.New("the answer of JetStream holds neither a record nor an error")
	}
	var header nats.Header
	if len(got.Message.Header) > 0 {
		if header, err = nats.DecodeHeadersMsg(got.Message.Header); err != nil {
			return election.Observation{}, fmt.Errorf("the headers of the record cannot be read: %w", err)
		}
	}
	return observe(got.Message.Sequence, header, got.Message.Data)
}

// observe reads a message of the bucket. Absence keeps the revision at which
// it began.
func observe(revision uint64, header nats.Header, data []byte) (election.Observation, error) {
	// KV-Operation marks a deletion or purge by a client, Nats-Marker-Reason
	// one by the server.
	if op := header.Get("KV-Operation"); op == "DEL" || op == "PURGE" || header.Get(jetstream.MarkerReasonHeader) != "" {
		return election.Observation{Revision: revision}, nil
	}
	r, uid, err := decode(data)
	if err != nil {
		return election.Observation{}, err
	}
	return election.Observation{Exists: true, UID: uid, Revision: revision, Record: r}, nil
}

// Create makes the record, on top of the mark that a deletion may have left.
func (l *lock) Create(ctx context.Context, r election.Record) (election.Observation, error) {
	before, err := l.read(ctx)
	if err != nil {
		return election.Observation{}, l.fail("create", err)
	}
	if before.Exists {
		return election.Observation{}, l.fail("create", fmt.Errorf("%w: it exists at revision %d", election.ErrConflict, before.Revision))
	}
	return l.write(ctx, "create", before.Revision, uuid.NewString(), r)
}

// Update replaces the record.
func (l *lock) Update(ctx context.Context, base election.Observation, r election.Record) (election.Observation, error) {
	if !base.Exists || base.Revision == 0 {
		return election.Observation{}, l.fail("update", fmt.Errorf("%w: the state it is based on holds no record", election.ErrConflict))
	}
	if err := l.ready(ctx); err != nil {
		return election.Observation{}, l.fail("update", err)
	}
	return l.write(ctx, "update", base.Revision, base.UID, r)
}

func (l *lock) write(ctx context.Context, verb string, last uint64, uid string, r election.Record) (election.Observation, error) {
	data, err := encode(r, uid)
	if err != nil {
		return election.Observation{}, l.fail(verb, fmt.Errorf("%w: %w", election.ErrRefused, err))
	}
	revision, err := l.put(ctx, last, data)
	if err != nil {
		return election.Observation{}, l.fail(verb, err)
	}
	// What was stored is what a reader will see, not what was meant.
	o, err := observe(revision, nil, data)
	if err != nil {
		return election.Observation{}, l.fail(verb, err)
	}
	return o, nil
}

// put stores data if the key is still at revision last.
//
// A replicated bucket refuses a conditional write (10164) while another write
// of the key is in process, and one may still be when its writer already has
// the acknowledgement. So this refusal says nothing about the revision, and is
// asked again: the other write ends soon, and then the answer is a plain yes
// or no.
func (l *lock) put(ctx context.Context, last uint64, data []byte) (uint64, error) {
	wait := firstInProcessWait
	for {
		revision, err := l.putOnce(ctx, last, data)
		if !hasCode(err, jetstream.JSErrCodeStreamWrongLastSequenceConstant) || wait > lastInProcessWait {
			return revision, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		wait *= 2
	}
}

// The waits for a write in process double from the first to the last, which
// makes about half a second in all.
const (
	firstInProcessWait = time.Millisecond
	lastInProcessWait  = 256 * time.Millisecond
)

func (l *lock) putOnce(ctx context.Context, last uint64, data []byte) (revision uint64, err error) {
	err = l.guard(ctx, l.publish, func(ctx context.Context) error {
		// nats.go tries again by itself only when nobody was there to take it.
		ack, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: l.publish, Data: data, Header: nats.Header{}},
			jetstream.WithExpectLastSequencePerSubject(last), jetstream.WithExpectStream(l.stream))
		if err == nil {
			revision = ack.Sequence
		}
		return err
	})
	return revision, err
}

// request sends a request to JetStream's API.
func (l *lock) request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	var answer []byte
	err := l.guard(ctx, subject, func(ctx context.Context) error {
		m, err := l.conn.RequestWithContext(ctx, subject, data)
		if err == nil {
			answer = m.Data
		}
		return err
	})
	return answer, err
}
