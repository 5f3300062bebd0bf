// Package natskv locks an election with a key in a NATS JetStream key-value
// bucket, for sites that have NATS and no Kubernetes:
//
//	js, err := jetstream.New(conn)
//	lock, err := natskv.New(js, natskv.Options{Namespace: "prod", Name: "scheduler"})
//
// The lock is then used as any other election.Lock; plain client-go candidates
// can stand beside it through election.ResourceLock.
//
// # What is stored
//
// One key for each election, <namespace>.<name> with the dots of the name
// written as underscores. Its value is JSON, with the field names of client-go's
// LeaderElectionRecord, and uid, epoch, epochAcquired and preferred beside
// them. The identity of a holder is found in the value only.
//
// The bucket is made when it is absent, by the first request that finds it so.
// One that exists is verified, never altered; what does not fit is an error
// that names the difference. Anything that lets a record go while it is held
// does not fit: a time to live, memory storage, discarding old records to make
// room.
//
// # What makes it safe
//
// Each write names the key's last revision, and the server makes it only if
// that is still so. Reads are answered by the bucket's leader, never by a
// replica, whatever the bucket's direct-get setting: a replica may lag. A
// leader that was cut off from the others may still answer reads for some
// seconds. It cannot complete a write, so that all it can do is to keep
// candidates waiting.
//
// Revisions rise as long as the bucket lives, across deletion of the key too.
// A bucket that this package makes also begins above any earlier one of its
// name: its first revision is the time of its making in microseconds. A bucket
// made by other means begins at one. Deleting and remaking such a bucket while
// an election is held sets the revisions back, and a holder that slept through
// it could meet its old number again; so let this package make the bucket, or
// give it a first sequence (nats stream add --first-seq).
//
// The bucket is as durable as the server makes it. A server that loses power
// may lose writes that it has acknowledged, unless sync_interval is "always"
// or the bucket has replicas elsewhere. That sets the lock back, like an etcd
// that is restored from a backup.
//
// # Permissions
//
// Publish: $KV.<bucket>.<key>, and with the API's prefix ($JS.API) in front:
// STREAM.INFO.KV_<bucket>, STREAM.MSG.GET.KV_<bucket>, CONSUMER.CREATE.KV_<bucket>.>
// and CONSUMER.DELETE.KV_<bucket>.>; and STREAM.CREATE.KV_<bucket>, unless
// somebody else makes the bucket. Subscribe: the connection's inbox.
package natskv
