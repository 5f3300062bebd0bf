package events

import (
	"testing"
	"time"
)

func TestPositionOpen(t *testing.T) {
	at := time.Unix(1, 0)
	made, remade := time.Unix(10, 0), time.Unix(20, 0)
	for _, test := range []struct {
		name string
		at   position
		log  logState
		want opening
	}{
		{"last, at first", position{}, logState{first: 1, last: 9}, opening{start: FromLast()}},
		{"sequence, at first", position{start: FromSequence(4)}, logState{first: 1, last: 9}, opening{start: FromSequence(4)}},
		{"the whole log", position{start: FromSequence(1)}, logState{first: 5, last: 9}, opening{start: FromSequence(1)}},
		{"a sequence that has gone", position{start: FromSequence(4)}, logState{first: 5, last: 9}, opening{start: FromSequence(4), gap: true}},
		{"a sequence to come", position{start: FromSequence(40)}, logState{first: 1, last: 9}, opening{start: FromSequence(40)}},
		{"time, at first", position{start: FromTime(at)}, logState{first: 1, last: 9}, opening{start: FromTime(at)}},
		{"now", position{start: FromNow()}, logState{first: 1, last: 9}, opening{start: FromSequence(10)}},
		{"now, on an empty log", position{start: FromNow()}, logState{}, opening{start: FromSequence(1)}},
		{"go on", position{next: 5, created: made}, logState{first: 1, last: 9, created: made}, opening{start: FromSequence(5)}},
		{"go on at the end", position{next: 10, created: made}, logState{first: 1, last: 9, created: made}, opening{start: FromSequence(10)}},
		{"retention overtook us", position{next: 5, created: made}, logState{first: 7, last: 9, created: made}, opening{start: FromSequence(5), gap: true}},
		{"purged", position{next: 10, created: made}, logState{first: 10, last: 9, created: made}, opening{start: FromSequence(10)}},
		{"made anew above what was seen", position{next: 10, created: made}, logState{first: 10, last: 12, created: remade}, opening{start: FromSequence(10)}},
		{"made anew above, and we were behind", position{next: 8, created: made}, logState{first: 10, last: 12, created: remade}, opening{start: FromSequence(8), gap: true}},
		{"made anew from one", position{next: 10, created: made}, logState{first: 1, last: 3, created: remade}, opening{start: FromLast(), rewound: true}},
		{"made anew from one, in sequence", position{start: FromSequence(8), next: 10, created: made}, logState{first: 1, last: 3, created: remade}, opening{start: FromSequence(1), rewound: true}},
		{"made anew, and grown", position{next: 10, created: made}, logState{first: 1, last: 30, created: remade, other: true}, opening{start: FromLast(), rewound: true}},
		{"made anew by one who knew less, and grown", position{next: 10, created: made}, logState{first: 8, last: 30, created: remade}, opening{start: FromLast(), rewound: true}},
		{"the same in sequence", position{start: FromSequence(1), next: 10, created: made}, logState{first: 8, last: 30, created: remade}, opening{start: FromSequence(8), rewound: true}},
		{"restored, and grown", position{next: 10, created: made}, logState{first: 1, last: 30, created: made, other: true}, opening{start: FromLast(), rewound: true}},
		{"restored, or a leader that is none", position{next: 10, created: made}, logState{first: 1, last: 3, created: made}, opening{start: FromLast(), rewound: true, doubtful: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.at.open(test.log); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestBackoffGrowsToItsBound(t *testing.T) {
	for failures := range 100 {
		got, most := pauseAfter(failures), mostBackoff
		if failures < 6 {
			most = min(firstBackoff<<failures, mostBackoff)
		}
		if got < 0 || got > most {
			t.Errorf("wait after %d failures: %s, want at most %s", failures, got, most)
		}
		if failures > 6 && got < mostBackoff/2 {
			t.Errorf("wait after %d failures: %s, want at least %s", failures, got, mostBackoff/2)
		}
	}
}
