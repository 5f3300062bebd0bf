package events

import "time"

// position is how far a follower has come.
type position struct {
	start Start
	// next is the first sequence that was not delivered yet; zero before the
	// first feed was current or delivered anything.
	next uint64
	// gap is true when messages have gone that should have been delivered,
	// and the caller has not been told yet.
	gap bool
	// created is when the stream was made that was read last.
	created time.Time
	// seen is the last message that arrived, if any: its sequence and when it
	// was stored. With created it tells whether the log is still the same one.
	seen       uint64
	seenStored time.Time
}

// logState is what a follower finds when it begins a feed.
type logState struct {
	first, last uint64
	created     time.Time
	// other is true when there is now another message at position.seen.
	other bool
}

// opening is where a feed begins.
type opening struct {
	start Start
	gap   bool
	// rewound is true when the log has lost its end.
	rewound bool
	// doubtful is true when that is only likely: it may also be that a
	// server answered which is the stream's leader no longer.
	doubtful bool
}

// open decides where the next feed begins.
func (p position) open(log logState) opening {
	if p.next == 0 {
		switch p.start.kind {
		case fromNow:
			return opening{start: FromSequence(log.last + 1)}
		case fromSequence:
			return opening{start: p.start, gap: p.start.seq > 1 && p.start.seq < log.first}
		default:
			return opening{start: p.start}
		}
	}
	// A log that was made anew by somebody who knew less of the former one holds
	// other messages under sequences that were delivered already, also where
	// none of them was of interest here.
	below := !p.created.IsZero() && !log.created.Equal(p.created) && log.first < p.next
	if behind := log.last+1 < p.next; log.other || behind || below {
		o := opening{start: FromSequence(log.first), rewound: true}
		if p.start.kind == fromLast {
			o.start = FromLast()
		}
		o.doubtful = !log.other && !below && log.created.Equal(p.created)
		return o
	}
	return opening{start: FromSequence(p.next), gap: log.first > p.next}
}

// precedes tells whether a message comes before the start.
func (s Start) precedes(msg *message) bool {
	switch s.kind {
	case fromSequence:
		return msg.seq < s.seq
	case fromTime:
		return msg.stored.Before(s.at)
	default:
		return false
	}
}
