package httpd

import "time"

// Source is what the server asks. Its methods are called from many goroutines
// at once and must answer from memory: no request to anybody, and no lock that
// a stuck elector could hold.
type Source interface {
	// Heartbeat returns when the elector last finished a turn of its loop, and
	// the longest time that may pass until the next: the lease duration and a
	// margin. With several elections it speaks of the one that is latest. A
	// zero time means that no elector has begun.
	Heartbeat() (last time.Time, limit time.Duration)

	// NotReady lists why the process cannot do its work now, one short
	// sentence each. An empty list means ready; a standby is ready.
	NotReady() []string

	// Leader is the identity that leads, by what this process knows; empty for
	// nobody. A process with many elections may always answer with nobody.
	Leader() string

	// Status is the whole picture.
	Status() Status
}

// Status is the content of /status, less what the server adds from the other
// methods of the source.
type Status struct {
	// Identity is this process's identity in its elections.
	Identity string `json:"identity,omitempty"`
	// Version is the program's.
	Version string `json:"version,omitempty"`
	// Watched counts the elections that the process only observes.
	Watched int `json:"watched,omitempty"`
	// Elections are those that the process stands in.
	Elections []Election `json:"elections,omitempty"`
	// Worker is what a worker does.
	Worker *Worker `json:"worker,omitempty"`
	// Queued counts the transitions that wait for the log.
	Queued int `json:"queued"`
	// Errors are the last error of each part that had one, newest first.
	Errors []Error `json:"errors,omitempty"`
}

// Election is what /status says about one election.
type Election struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Lease     string `json:"lease"`
	// Leader is who leads; empty for nobody.
	Leader string `json:"leader"`
	// Leading is true when this process does.
	Leading bool `json:"leading"`
	// Epoch is the term's number in the log; zero while it is unknown.
	Epoch uint64 `json:"epoch,omitempty"`
	// Since is when the present state began.
	Since time.Time `json:"since,omitzero"`
}

// Worker is what /status says about a worker.
type Worker struct {
	Role string `json:"role"`
	// Holding is true while it holds the grant, and Epoch and Since tell of which
	// term and since when.
	Holding bool      `json:"holding"`
	Epoch   uint64    `json:"epoch,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// Error is the last error of one part of the process.
type Error struct {
	// Part names it: "election", "log", "watch", "grants", "telemetry".
	Part  string    `json:"part"`
	Error string    `json:"error"`
	At    time.Time `json:"at"`
	// Count is how often the part has failed since the process began.
	Count int `json:"count,omitempty"`
	// Recovered is true when the part has worked since.
	Recovered bool `json:"recovered,omitempty"`
}
