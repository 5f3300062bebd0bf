package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/nodeenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// patience is longer than anything here takes on a busy machine.
const patience = 60 * time.Second

var scheduler = events.Election{Cluster: "default", Namespace: "default", Lease: "scheduler"}

// project is the example as its user has it, in a folder of its own.
type project struct {
	t       *testing.T
	folder  string
	journal string
	url     string
}

func newProject(t *testing.T, url string) *project {
	t.Helper()
	source := filepath.Join("..", "..", "examples", "node-follower")
	p := &project{t: t, folder: t.TempDir(), url: url}
	p.journal = filepath.Join(p.folder, "journal.jsonl")
	files, err := filepath.Glob(filepath.Join(source, "*.mjs"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no program in %s: %v", source, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err == nil {
			err = os.WriteFile(filepath.Join(p.folder, filepath.Base(f)), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(nodeenv.Packages(t, source), filepath.Join(p.folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *project) start(name string) *procenv.Process {
	p.t.Helper()
	return procenv.StartProgram(p.t, name, []string{"NATS_URL=" + p.url},
		nodeenv.Node(p.t), filepath.Join(p.folder, "follower.mjs"), p.journal)
}

// record is a line of the journal.
type record struct {
	Sequence uint64
	ID       string
	Epoch    uint64
	Leader   string
}

// records reads the journal's whole lines.
func (p *project) records() []record {
	p.t.Helper()
	text, err := os.ReadFile(p.journal)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	var all []record
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			p.t.Fatalf("the journal holds %q: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

// awaitRecords waits until the journal has so many lines.
func (p *project) awaitRecords(n int) {
	p.t.Helper()
	testenv.Eventually(p.t, patience, func() error {
		if got := len(p.records()); got < n {
			return fmt.Errorf("%d events are applied, want %d", got, n)
		}
		return nil
	})
}

// logged returns the events that the stream holds, as records.
func logged(t *testing.T, js jetstream.JetStream) []record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := js.Stream(ctx, events.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	var all []record
	state := stream.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		m, err := stream.GetMsg(ctx, seq)
		if err != nil {
			t.Fatalf("read message %d: %v", seq, err)
		}
		e, err := events.Decode(m.Header, m.Data)
		if err != nil {
			t.Fatalf("message %d: %v", seq, err)
		}
		all = append(all, record{seq, e.ID(), e.Epoch, e.Leader})
	}
	return all
}

// handOver lets n leaders step down, each once the log says that it leads.
func handOver(t *testing.T, nc *nats.Conn, js jetstream.JetStream, n int) {
	t.Helper()
	leads := scheduler.Subject(events.DefaultPrefix, events.NewLeader)
	ask := scheduler.RequestSubject(events.DefaultPrefix, events.StepDownVerb)
	// term waits for a term after the given one.
	term := func(after uint64) (epoch uint64) {
		testenv.Eventually(t, patience, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			stream, err := js.Stream(ctx, events.DefaultStream)
			if err != nil {
				return err
			}
			m, err := stream.GetLastMsgForSubject(ctx, leads)
			if err != nil {
				return err
			}
			e, err := events.Decode(m.Header, m.Data)
			if err == nil && e.Epoch <= after {
				err = fmt.Errorf("term %d is the last", e.Epoch)
			}
			epoch = e.Epoch
			return err
		})
		return epoch
	}
	for range n {
		epoch := term(0)
		testenv.Eventually(t, patience, func() error {
			answer, err := nc.Request(ask, nil, time.Second)
			if err == nil && answer.Header.Get("Nats-Service-Error-Code") != "" {
				err = errors.New(answer.Header.Get("Nats-Service-Error"))
			}
			return err
		})
		term(epoch)
	}
}

func publish(t *testing.T, js jetstream.JetStream, header nats.Header, data []byte) uint64 {
	t.Helper()
	subject := scheduler.Subject(events.DefaultPrefix, events.BecameLeader)
	ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: header, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return ack.Sequence
}

func encode(t *testing.T, e events.Event, mode events.ContentMode) (nats.Header, []byte) {
	t.Helper()
	header, data, err := events.Encode(e, mode)
	if err != nil {
		t.Fatal(err)
	}
	return header, data
}

// A term's begin that somebody made up.
func became(epoch uint64, uid string) events.Event {
	return events.Event{
		Election: scheduler, Transition: events.BecameLeader, UID: uid, Epoch: epoch, Time: time.Now(),
		Leader: "100% héllo", Reason: events.TakenOver, Reporter: "somebody", Perspective: events.ByWitness,
	}
}

// The follower is killed while leaders change, once in the middle of a write,
// and the server is restarted under it. It has then applied the log: all of it,
// in order, once. What is not of the log is refused.
func TestFollowerAppliesTheLogOnce(t *testing.T) {
	server := natsenv.Start(t)
	nc := server.Connect(t)
	js := server.JetStream(t)
	p := newProject(t, server.URL())
	follower := p.start("follower-1") // before there is a log
	var candidates []*procenv.Process
	for _, id := range []string{"a", "b c"} {
		candidates = append(candidates, procenv.Start(t, id, nil,
			"run", "--lock", "nats", "--lease-lock-name", "scheduler", "--nats-url", server.URL(), "--id", id,
			"--lease-duration", "6s", "--renew-deadline", "4s", "--retry-period", "500ms", "--http-addr", ""))
	}
	handOver(t, nc, js, 3)
	p.awaitRecords(4)
	follower.Signal(syscall.SIGKILL)
	follower.Wait(patience)

	handOver(t, nc, js, 3)
	killed := len(p.records())
	f, err := os.OpenFile(p.journal, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"sequence":99,"id":"cut o`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	follower = p.start("follower-2")
	p.awaitRecords(killed + 3)
	follower.Signal(syscall.SIGKILL) // with its backlog in its hands, perhaps
	follower.Wait(patience)

	follower = p.start("follower-3")
	handOver(t, nc, js, 2)
	server.Restart(t)
	handOver(t, nc, js, 2)
	for _, c := range candidates {
		c.Signal(syscall.SIGTERM)
		if code := c.Wait(patience); code != 0 {
			t.Errorf("a candidate exited with %d", code)
		}
	}

	want := logged(t, js)
	last := want[len(want)-1]
	if last.Epoch < 11 {
		t.Fatalf("ten hand-overs ended in epoch %d", last.Epoch)
	}
	p.awaitRecords(len(want))

	// From here on the test itself is the one who may publish.
	old := became(last.Epoch-1, "another-uid")
	stale := publish(t, js, nil, second(encode(t, old, events.Structured)))
	raw, err := js.Stream(t.Context(), events.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	again, err := raw.GetMsg(t.Context(), last.Sequence)
	if err != nil {
		t.Fatal(err)
	}
	header := nats.Header{"Content-Type": again.Header["Content-Type"]} // without the id that JetStream would know
	twice := publish(t, js, header, again.Data)
	noise := publish(t, js, nil, []byte("\xff no event"))
	v2 := publish(t, js, nil, []byte(`{"specversion":"1.0","id":"1","source":"/x","type":"io.leaderbridge.became-leader.v2","data":{}}`))
	for _, mode := range []events.ContentMode{events.Binary, events.Structured} {
		next := became(last.Epoch+1, "another-uid")
		if mode == events.Structured {
			next.Epoch++
		}
		header, data := encode(t, next, mode)
		seq := publish(t, js, header, data)
		want = append(want, record{seq, next.ID(), next.Epoch, next.Leader})
	}
	p.awaitRecords(len(want))
	follower.Signal(syscall.SIGTERM)
	if code := follower.Wait(patience); code != 0 {
		t.Errorf("the follower exited with %d", code)
	}

	if got := p.records(); !slices.Equal(got, want) {
		t.Errorf("applied:\n%v\nwant, the log:\n%v", got, want)
	}
	for seq, why := range map[uint64]string{
		stale: fmt.Sprintf("epoch %d is over, %d was seen", last.Epoch-1, last.Epoch),
		twice: "applied before",
		noise: "no event",
		v2:    "a type of a later version",
	} {
		if !said(follower, seq, why) {
			t.Errorf("the follower does not say of message %d: %s", seq, why)
		}
	}
}

func second(_ nats.Header, data []byte) []byte { return data }

// said tells whether the follower has written a line about a message.
func said(p *procenv.Process, seq uint64, why string) bool {
	for line := range strings.Lines(p.Stdout()) {
		if strings.Contains(line, fmt.Sprintf(`"sequence":%d,`, seq)) && strings.Contains(line, why) {
			return true
		}
	}
	return false
}

// A stream that was made anew begins with sequence 1 again. The epochs go on,
// and keep out what is old.
func TestFollowerOfAStreamMadeAnew(t *testing.T) {
	server := natsenv.Start(t)
	js := server.JetStream(t)
	open := func() { // by hand: leaderbridge lets the sequences go on
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: events.DefaultStream, Subjects: []string{events.DefaultPrefix + ".event.>"},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(epoch uint64) record {
		e := became(epoch, "uid")
		header, data := encode(t, e, events.Structured)
		return record{publish(t, js, header, data), e.ID(), e.Epoch, e.Leader}
	}
	p := newProject(t, server.URL())
	open()
	follower := p.start("follower-1")
	var want []record
	for epoch := range uint64(5) {
		want = append(want, put(epoch+1))
	}
	p.awaitRecords(5)
	follower.Signal(syscall.SIGTERM)
	if code := follower.Wait(patience); code != 0 {
		t.Errorf("the follower exited with %d", code)
	}
	if err := js.DeleteStream(t.Context(), events.DefaultStream); err != nil {
		t.Fatal(err)
	}
	open()
	put(4)
	put(5)
	want = append(want, put(6))
	follower = p.start("follower-2")
	p.awaitRecords(6)
	want = append(want, put(7))
	p.awaitRecords(7)
	if got := p.records(); !slices.Equal(got, want) {
		t.Errorf("applied %v, want %v", got, want)
	}
	if !strings.Contains(follower.Stdout(), `"rewound"`) {
		t.Error("the follower does not say that the log was rewound")
	}
}
