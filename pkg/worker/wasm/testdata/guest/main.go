// Guest plays the modules under test: its first argument says what it does.
// It imports little, to be compiled fast.
package main

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	args := os.Args[1:]
	switch args[0] {
	case "exit":
		n, _ := strconv.Atoi(args[1])
		os.Exit(n)
	case "panic":
		panic("as told")
	case "probe":
		probe()
	case "files":
		files(args[1])
	case "event":
		event(args[1:])
	}
}

func say(line string) { os.Stdout.WriteString(line + "\n") }

// probe reports all that it can see of the world.
func probe() {
	for _, a := range os.Args {
		say("arg " + a)
	}
	for _, kv := range os.Environ() {
		say("env " + kv)
	}
	for _, p := range []string{"/", ".", "/etc/passwd", "/proc/self/environ", "/tmp", "../../../etc/passwd"} {
		if _, err := os.Stat(p); err == nil {
			say("file " + p)
		}
		if _, err := os.ReadDir(p); err == nil {
			say("directory " + p)
		}
	}
	if os.WriteFile("/tmp/out", []byte("x"), 0o600) == nil {
		say("written /tmp/out")
	}
	if in, _ := io.ReadAll(os.Stdin); len(in) > 0 {
		say("stdin " + string(in))
	}
	say("year " + strconv.Itoa(time.Now().Year()))
}

// files tries everything on a mounted directory, and reports what worked.
func files(dir string) {
	at := func(name string) string { return filepath.Join(dir, name) }
	try := func(what string, err error) {
		if err != nil {
			say("no " + what + ": " + err.Error())
			return
		}
		say("yes " + what)
	}
	read := func(name string) error { _, err := os.ReadFile(name); return err }
	open := func(name string, flag int) error {
		f, err := os.OpenFile(name, flag, 0o600)
		if err == nil {
			f.Close()
		}
		return err
	}
	stat := func(name string) error { _, err := os.Stat(name); return err }
	list := func(name string) error { _, err := os.ReadDir(name); return err }
	try("read", read(at("inside")))
	try("list", list(dir))
	try("list below", list(at("below")))
	try("read link inside", read(at("link-inside")))
	try("read link outside", read(at("link-outside")))
	try("read link absolute", read(at("link-absolute")))
	try("read below linked dir", read(at("link-dir/secret")))
	try("list linked dir", list(at("link-dir")))
	try("read dotdot", read(dir+"/../secret"))
	try("stat link outside", stat(at("link-outside")))
	try("read pipe", read(at("pipe")))
	try("write", os.WriteFile(at("new"), []byte("new"), 0o600))
	try("create", open(at("created"), os.O_RDONLY|os.O_CREATE))
	try("truncate", open(at("full"), os.O_RDONLY|os.O_TRUNC))
	try("write dangling link", os.WriteFile(at("link-dangling"), []byte("x"), 0o600))
	try("mkdir", os.Mkdir(at("dir"), 0o700))
	try("rename", os.Rename(at("movable"), at("moved")))
	try("rename out", os.Rename(at("inside"), at("link-dir/inside")))
	try("remove", os.Remove(at("removable")))
	try("remove outside", os.Remove(at("link-dir/secret")))
	try("symlink", os.Symlink("/etc", at("etc")))
	try("link", os.Link(at("inside"), at("linked")))
	try("chtimes", os.Chtimes(at("inside"), time.Now(), time.Unix(1, 0)))
}

// event reads an event and does as the arguments say.
func event(steps []string) {
	in, err := io.ReadAll(os.Stdin)
	if err != nil || !strings.Contains(string(in), `"id":"in"`) {
		os.Exit(1)
	}
	for i, what := range steps {
		switch what {
		case "event":
			say(`{"specversion":"1.0","id":"in.` + strconv.Itoa(i) + `","source":"/guest","type":"guest.v1",` +
				`"data":{"epoch":"` + os.Getenv("LEADERBRIDGE_EPOCH") + `"}}`)
		case "fail":
			os.Exit(3)
		case "spin":
			for {
			}
		default:
			say(what)
		}
	}
}
