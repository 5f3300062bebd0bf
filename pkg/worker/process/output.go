//go:build unix

package process

import (
	"io"
	"os"
	"sync"
	"time"
)

// output carries what a command writes to where it belongs.
type output struct {
	files   []*os.File // for the command; closed once handed over
	pipes   []*os.File // read ends of those that are pipes
	copying sync.WaitGroup
	flush   []func() error
}

// drainTimeout bounds the wait for output after the command's end. All that
// wrote is dead then, so only a slow reader, or a process that escaped, can
// take longer.
const drainTimeout = time.Second

// add returns the file that the command gets for w. A file is handed on as it
// is, so that a terminal stays a terminal; unless lines need a prefix.
func (o *output) add(w io.Writer, standard *os.File, prefix string) (*os.File, error) {
	if w == nil {
		w = standard
	}
	if f, ok := w.(*os.File); ok && prefix == "" {
		return f, nil
	}
	r, f, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	o.files = append(o.files, f)
	o.pipes = append(o.pipes, r)
	if prefix != "" {
		p := &prefixer{w: w, prefix: prefix}
		o.flush = append(o.flush, p.flush)
		w = p
	}
	o.copying.Go(func() {
		if _, err := io.Copy(w, r); err != nil {
			// Nobody can read it: let the command write on into nothing.
			_, _ = io.Copy(io.Discard, r)
		}
	})
	return f, nil
}

// handedOver closes what belongs to the command alone.
func (o *output) handedOver() {
	for _, f := range o.files {
		f.Close()
	}
	o.files = nil
}

// drain waits until everything has been copied.
func (o *output) drain() {
	o.handedOver()
	late := time.AfterFunc(drainTimeout, func() {
		for _, r := range o.pipes {
			r.Close()
		}
	})
	o.copying.Wait()
	late.Stop()
	for _, r := range o.pipes {
		r.Close()
	}
	for _, f := range o.flush {
		_ = f()
	}
}
