package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// DefaultBucket holds the positions of all roles.
const DefaultBucket = "leaderbridge_positions"

// requestTimeout bounds each request to the bucket.
const requestTimeout = 5 * time.Second

func open(nc *nats.Conn, o events.Options) (jetstream.JetStream, error) {
	switch {
	case o.Domain != "":
		return jetstream.NewWithDomain(nc, o.Domain)
	case o.APIPrefix != "":
		return jetstream.NewWithAPIPrefix(nc, o.APIPrefix)
	}
	return jetstream.New(nc)
}

// place is where the position of one role is kept.
type place struct {
	kv  jetstream.KeyValue
	key string
	// revision is the condition of the next write; zero when there is no key.
	revision uint64
}

// find returns the bucket's place for a role, and what stands there.
func (f *feed) find(ctx context.Context, key string) (*place, position, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	kv, err := f.js.KeyValue(ctx, f.o.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		if err := f.make(ctx); err != nil {
			return nil, position{}, err
		}
		kv, err = f.js.KeyValue(ctx, f.o.Bucket)
	}
	if err != nil {
		return nil, position{}, fmt.Errorf("open the bucket %s: %w", f.o.Bucket, err)
	}
	at := &place{kv: kv, key: key}
	entry, err := kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return at, position{}, nil
	case err != nil:
		return nil, position{}, fmt.Errorf("read the position %s in %s: %w", key, f.o.Bucket, err)
	}
	at.revision = entry.Revision()
	p, err := parse(entry.Value())
	if err != nil {
		return nil, position{}, fmt.Errorf("read the position %s in %s: %w", key, f.o.Bucket, err)
	}
	return at, p, nil
}

// set writes the position, unless somebody else has.
func (p *place) set(ctx context.Context, to position) error {
	value, err := json.Marshal(to)
	if err != nil {
		return err
	}
	if p.revision == 0 {
		// Create also takes the place of a key that was deleted.
		p.revision, err = p.kv.Create(ctx, p.key, value)
	} else {
		p.revision, err = p.kv.Update(ctx, p.key, value, p.revision)
	}
	if err != nil {
		return fmt.Errorf("write the position %s in %s: %w", p.key, p.kv.Bucket(), err)
	}
	return nil
}

// make makes the bucket as nats.go would, but for two things: replicas do not
// answer reads, since an old position means work done twice; and it begins with
// a revision that no earlier bucket of its name can have reached, so that a
// condition from before does not hold by chance.
func (f *feed) make(ctx context.Context) error {
	config := jetstream.StreamConfig{
		Name:              "KV_" + f.o.Bucket,
		Description:       "How far the roles of leaderbridge workers have come",
		Subjects:          []string{"$KV." + f.o.Bucket + ".>"},
		MaxMsgsPerSubject: 1,
		Storage:           jetstream.FileStorage,
		Discard:           jetstream.DiscardNew,
		AllowRollup:       true,
		DenyDelete:        true,
		FirstSeq:          uint64(time.Now().UnixMicro()), // #nosec G115 -- after 1970
		Replicas:          3,
	}
	_, err := f.js.CreateStream(ctx, config)
	if api := new(jetstream.APIError); errors.As(err, &api) && api.ErrorCode == notClustered {
		config.Replicas = 1
		_, err = f.js.CreateStream(ctx, config)
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another worker was faster
		return fmt.Errorf("make the bucket %s: %w", f.o.Bucket, err)
	}
	return nil
}

// notClustered is JetStream's answer to a stream with replicas on a server
// that stands alone.
const notClustered jetstream.ErrorCode = 10074
