package natsconn

import (
	"regexp"
	"strings"
	"time"
)

// refusal is how the server names what it does not permit, in an error that
// belongs to no call.
var refusal = regexp.MustCompile(`(?i)permissions violation for (publish|subscription)[^"]*"([^"]*)"`)

// A refused publish explains a failure for this long. The call that fails from
// it waits for an answer for some seconds, and each repetition is refused anew.
const refusalAge = 30 * time.Second

// maxRefusals bounds the memory: a client that is refused more subjects than
// this has been told so often enough.
const maxRefusals = 100

type denied struct {
	publish   map[string]dated
	subscribe map[string]dated
}

type dated struct {
	err error
	at  time.Time
}

// add notes an asynchronous error, and reports whether it is a refusal that
// was not known.
func (d *denied) add(now time.Time, err error) (isRefusal, isNew bool) {
	m := refusal.FindStringSubmatch(err.Error())
	if m == nil {
		return false, false
	}
	of := &d.subscribe
	if strings.EqualFold(m[1], "publish") {
		of = &d.publish
	}
	if *of == nil {
		*of = map[string]dated{}
	}
	_, known := (*of)[m[2]]
	if !known && len(*of) >= maxRefusals {
		return true, false
	}
	(*of)[m[2]] = dated{err, now}
	return true, !known
}

// find returns the refusal that explains why a request on subject got no
// answer: the publish itself was refused, or the subscription to the answers.
// An empty subject stands for any.
func (d *denied) find(now time.Time, subject, inbox string) error {
	var newest dated
	for s, r := range d.publish {
		if (subject == "" || s == subject) && now.Sub(r.at) <= refusalAge && r.at.After(newest.at) {
			newest = r
		}
	}
	if newest.err != nil {
		return newest.err
	}
	// The subscription is made once for all answers, so its refusal holds for
	// as long as the connection does.
	for s, r := range d.subscribe {
		if strings.HasPrefix(s, inbox+".") {
			return r.err
		}
	}
	return nil
}
