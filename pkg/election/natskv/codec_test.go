package natskv

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"pgregory.net/rapid"

	"github.com/leaderbridge/leaderbridge/pkg/election"
)

var someTime = time.Date(2026, 3, 29, 1, 59, 59, 123456000, time.UTC)

func genRecord(t *rapid.T) election.Record {
	when := func(label string) time.Time {
		if rapid.Bool().Draw(t, label+"?") {
			return time.Time{}
		}
		return someTime.Add(time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, label)) * time.Microsecond)
	}
	r := election.Record{
		Holder:          rapid.String().Draw(t, "holder"),
		Duration:        time.Duration(rapid.Int32Range(0, math.MaxInt32).Draw(t, "seconds")) * time.Second,
		Acquired:        when("acquired"),
		Renewed:         when("renewed"),
		HasTransitions:  rapid.Bool().Draw(t, "hasTransitions"),
		Epoch:           rapid.Uint64().Draw(t, "epoch"),
		Preferred:       rapid.String().Draw(t, "preferred"),
		Strategy:        rapid.String().Draw(t, "strategy"),
		PreferredHolder: rapid.String().Draw(t, "preferredHolder"),
	}
	if r.HasTransitions {
		r.Transitions = rapid.IntRange(0, math.MaxInt).Draw(t, "transitions")
	}
	if r.Epoch > 0 {
		r.EpochAcquired = when("epochAcquired")
	}
	return r
}

func TestValueKeepsEveryRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, uid := genRecord(t), rapid.StringN(1, -1, -1).Draw(t, "uid")
		data, err := encode(want, uid)
		if err != nil {
			t.Fatal(err)
		}
		got, gotUID, err := decode(data)
		if err != nil || !got.Equal(want) || gotUID != uid {
			t.Fatalf("stored %+v %q\nread   %+v %q, %v", want, uid, got, gotUID, err)
		}
	})
}

// Software that knows only client-go's record reads ours and writes its own.
func TestValueIsClientGosRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genRecord(t)
		data, err := encode(want, "u")
		if err != nil {
			t.Fatal(err)
		}
		var theirs resourcelock.LeaderElectionRecord
		if err := json.Unmarshal(data, &theirs); err != nil {
			t.Fatal(err)
		}
		if theirs.HolderIdentity != want.Holder || theirs.LeaseDurationSeconds != int(want.Duration/time.Second) ||
			!theirs.AcquireTime.Time.Equal(want.Acquired) || !theirs.RenewTime.Time.Equal(want.Renewed) ||
			theirs.LeaderTransitions != want.Transitions || string(theirs.Strategy) != want.Strategy ||
			theirs.PreferredHolder != want.PreferredHolder {
			t.Fatalf("wrote %+v\nclient-go reads %+v", want, theirs)
		}
	})
	data, err := json.Marshal(resourcelock.LeaderElectionRecord{
		HolderIdentity: "a", LeaseDurationSeconds: 15, LeaderTransitions: 3,
		AcquireTime: metav1.NewTime(someTime), RenewTime: metav1.NewTime(someTime),
	})
	if err != nil {
		t.Fatal(err)
	}
	got, uid, err := decode(data)
	seconds := someTime.Truncate(time.Second)
	want := election.Record{Holder: "a", Duration: 15 * time.Second, Acquired: seconds, Renewed: seconds, Transitions: 3, HasTransitions: true}
	if err != nil || !got.Equal(want) || uid == "" {
		t.Errorf("client-go wrote %s\nread %+v, uid %q, %v", data, got, uid, err)
	}
}

func TestOddValues(t *testing.T) {
	for _, tc := range []struct {
		value string
		want  election.Record
		fails bool
	}{
		{value: ``, fails: true},
		{value: `null`, fails: true},
		{value: `[]`, fails: true},
		{value: `"a"`, fails: true},
		{value: `{"holderIdentity":`, fails: true},
		{value: `{"holderIdentity":7}`, fails: true},
		{value: `{}`},
		{value: `{"holderIdentity":null}`},
		{value: `{"HolderIdentity":"a"}`},
		{value: `{"holderIdentity":"a"}`, want: election.Record{Holder: "a"}},
		{value: `{"holderIdentity":"a","leaseDurationSeconds":"15","acquireTime":5,"renewTime":"noon","leaderTransitions":{},"epoch":-1,"uid":3}`,
			want: election.Record{Holder: "a"}},
		{value: `{"holderIdentity":"a","leaseDurationSeconds":-1,"leaderTransitions":-1}`, want: election.Record{Holder: "a", HasTransitions: true}},
		{value: `{"holderIdentity":"a","leaseDurationSeconds":99999999999999,"acquireTime":null,"renewTime":"0001-01-01T00:00:00Z"}`,
			want: election.Record{Holder: "a"}},
	} {
		r, uid, err := decode([]byte(tc.value))
		if (err != nil) != tc.fails || !r.Equal(tc.want) {
			t.Errorf("%s: %+v, %v", tc.value, r, err)
		}
		if err == nil && uid != foreignUID {
			t.Errorf("%s: uid %q", tc.value, uid)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "delete the key")) {
			t.Errorf("%s: %v", tc.value, err)
		}
	}
}

// checkDecode holds decode to what it promises for any bytes at all.
func checkDecode(t interface{ Fatalf(string, ...any) }, data []byte) {
	r, uid, err := decode(data)
	if err != nil {
		return
	}
	if uid == "" {
		t.Fatalf("%q: a record without uid", data)
	}
	again, err := encode(r, uid)
	if err != nil {
		t.Fatalf("%q: what was read cannot be written: %v", data, err)
	}
	r2, uid2, err := decode(again)
	if err != nil || !r2.Equal(r) || uid2 != uid {
		t.Fatalf("%q\nread  %+v\nagain %+v, %v", data, r, r2, err)
	}
}

var (
	wholeValue = []byte(`{"holderIdentity":"a\u00fc","leaseDurationSeconds":15,"acquireTime":"2026-03-29T01:59:59.123456Z","renewTime":"2026-03-29T01:59:59Z","leaderTransitions":2,"uid":"u","epoch":7,"epochAcquired":"2026-03-29T01:59:59Z","preferred":"b"}`)
	oddValue   = []byte(`{"holderIdentity":"\ud800","renewTime":"9999-12-31T23:59:59.999999999-23:59","epoch":1e3}`)
)

func FuzzDecode(f *testing.F) {
	f.Add(wholeValue)
	f.Add(oddValue)
	f.Fuzz(func(t *testing.T, data []byte) { checkDecode(t, data) })
}

func TestDecodeOfSpoiltValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := slices.Clone(rapid.SampledFrom([][]byte{wholeValue, oddValue}).Draw(t, "value"))
		for range rapid.IntRange(1, 4).Draw(t, "times") {
			from := rapid.IntRange(0, len(data)).Draw(t, "from")
			to := rapid.IntRange(from, min(from+8, len(data))).Draw(t, "to")
			by := rapid.SampledFrom([]string{"", "0", "9", "-", "\"", "null", "{}", "[1]", "\xff", "\\u0000", ",", ":", "e9"}).Draw(t, "by")
			data = slices.Replace(data, from, to, []byte(by)...)
		}
		checkDecode(t, data)
	})
}
