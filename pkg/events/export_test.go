package events

// Leap is how far the sequences of a log that is made anew lie above the former
// ones.
const Leap = leap

// SetAtomic makes a log store the events of a step as a batch, or one by one,
// whatever its stream is.
func SetAtomic(l *Log, atomic bool) { l.atomic.Store(atomic) }
