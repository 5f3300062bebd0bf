package events

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// The limits of an event's strings, in bytes. Kubernetes sets none for a
// holder's identity; this one keeps an event below [MaxMessage] in either
// content mode.
const (
	MaxIdentity = 4096
	maxUID      = 128
	maxWord     = 64
)

// Validate tells whether the event is complete and does not contradict itself.
// The error is one line and names the field. [Encode] refuses what does not
// pass.
func (e Event) Validate() error {
	if err := e.check(); err != nil {
		return err
	}
	switch e.Reason {
	case Acquired, Resumed, TakenOver:
		if e.Transition == StoppedLeading {
			return fmt.Errorf("reason %q is for a start, not for %s", e.Reason, e.Transition)
		}
	case Released, Expired, RenewDeadline, Superseded, Deleted, StepDown, Unhealthy:
		if e.Transition != StoppedLeading {
			return fmt.Errorf("reason %q is for an end, not for %s", e.Reason, e.Transition)
		}
	default:
		return fmt.Errorf("reason %s is not known", quote(string(e.Reason)))
	}
	switch e.Perspective {
	case ByLeader, ByWitness, ByWatcher:
	default:
		return fmt.Errorf("perspective %s is not known: want leader, witness or watcher", quote(string(e.Perspective)))
	}
	return nil
}

// check is what a reader asks of an event. It leaves the words for reason and
// perspective open, so that a newer writer may know more of them.
func (e Event) check() error {
	if err := e.Election.Validate(); err != nil {
		return err
	}
	if !e.Transition.known() {
		return fmt.Errorf("transition %s is not known", quote(string(e.Transition)))
	}
	if !isGraphic(e.UID, maxUID) {
		return fmt.Errorf("uid %s is not usable: want 1 to %d printable ASCII characters without space", quote(e.UID), maxUID)
	}
	if e.Epoch < 1 || e.Epoch > MaxEpoch {
		return fmt.Errorf("epoch %d is out of range: want 1 to %d", e.Epoch, MaxEpoch)
	}
	if e.Time.IsZero() {
		return fmt.Errorf("time is missing")
	}
	if err := e.checkTimes(); err != nil {
		return err
	}
	if err := e.checkIdentities(); err != nil {
		return err
	}
	if !isWord(string(e.Reason)) {
		return fmt.Errorf("reason %s is not a word of a-z and '-'", quote(string(e.Reason)))
	}
	if !isWord(string(e.Perspective)) {
		return fmt.Errorf("perspective %s is not a word of a-z and '-'", quote(string(e.Perspective)))
	}
	return e.checkNumbers()
}

func (e Event) checkTimes() error {
	for _, t := range []struct {
		name  string
		value time.Time
	}{{"time", e.Time}, {"acquireTime", e.AcquireTime}, {"renewTime", e.RenewTime}} {
		// RFC 3339 has four digits for the year.
		if year := t.value.UTC().Year(); year < 1 || year > 9999 {
			return fmt.Errorf("%s lies in the year %d: want 1 to 9999", t.name, year)
		}
	}
	return nil
}

func (e Event) checkIdentities() error {
	for _, id := range []struct{ name, value string }{
		{"leader", e.Leader}, {"previousLeader", e.PreviousLeader}, {"reporter", e.Reporter},
	} {
		if len(id.value) > MaxIdentity {
			return fmt.Errorf("%s of %d bytes is too long: at most %d", id.name, len(id.value), MaxIdentity)
		}
		// JSON could not carry it: it would come back as another identity.
		if !utf8.ValidString(id.value) {
			return fmt.Errorf("%s %s is not UTF-8", id.name, quote(id.value))
		}
	}
	switch {
	case e.Reporter == "":
		return fmt.Errorf("reporter is missing")
	case e.Transition != StoppedLeading && e.Leader == "":
		return fmt.Errorf("leader is missing: %s needs one", e.Transition)
	case e.Transition == StoppedLeading && e.PreviousLeader == "":
		return fmt.Errorf("previousLeader is missing: %s needs one", e.Transition)
	case e.Transition == StoppedLeading && e.Leader != "":
		return fmt.Errorf("leader is %s: nobody leads after %s", quote(e.Leader), e.Transition)
	}
	return nil
}

func (e Event) checkNumbers() error {
	if e.Missed > MaxEpoch {
		return fmt.Errorf("missed %d is out of range: want 0 to %d", e.Missed, MaxEpoch)
	}
	if e.LeaseTransitions != nil && *e.LeaseTransitions < 0 {
		return fmt.Errorf("leaseTransitions %d is negative", *e.LeaseTransitions)
	}
	if e.LeaseDurationSeconds != nil && *e.LeaseDurationSeconds < 0 {
		return fmt.Errorf("leaseDurationSeconds %d is negative", *e.LeaseDurationSeconds)
	}
	if e.LeaderlessMillis != nil && *e.LeaderlessMillis < 0 {
		return fmt.Errorf("leaderlessMillis %d is negative", *e.LeaderlessMillis)
	}
	return nil
}

func (t Transition) known() bool {
	return t == BecameLeader || t == StoppedLeading || t == NewLeader
}

func isGraphic(s string, most int) bool {
	for _, c := range []byte(s) {
		if c < '!' || c > '~' {
			return false
		}
	}
	return s != "" && len(s) <= most
}

func isWord(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= maxWord
}
