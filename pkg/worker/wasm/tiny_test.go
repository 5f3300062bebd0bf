package wasm

import (
	"encoding/binary"
	"slices"
)

// The modules here are written by hand, since they are compiled in no time,
// other than what a real compiler makes. The numbers are those of the core
// specification, chapter 5, and of WASI preview 1.

const (
	opUnreachable = "\x00"
	opLoop        = "\x03\x40"
	opIf          = "\x04\x40"
	opEnd         = "\x0b"
	opAgain       = "\x0c\x00" // a branch to the loop around it
	opDrop        = "\x1a"
	opMemoryGrow  = "\x40\x00"

	callWrite = "\x10\x00" // fd_write(fd, iovs, number of iovs, address for the count)
	callPoll  = "\x10\x01" // poll_oneoff(in, out, number, address for the count)
)

func i32(n byte) string { return string([]byte{0x41, n}) } // up to 63

// tiny returns a command that runs the code, in a memory of one page that
// begins with: at 0, a vector of one buffer of 1000 bytes at 32; at 48, a
// subscription to a clock, for so many nanoseconds.
func tiny(code string, nanoseconds uint64) []byte {
	section := func(id byte, content string) string { return string(appendBlock([]byte{id}, []byte(content))) }
	name := func(s string) string { return string(appendBlock(nil, []byte(s))) }

	vector := binary.LittleEndian.AppendUint32(nil, 32)
	vector = binary.LittleEndian.AppendUint32(vector, 1000)
	memory := slices.Grow(vector, 96)[:96]
	memory[48+16] = 1 // the monotonic clock
	binary.LittleEndian.PutUint64(memory[48+24:], nanoseconds)

	body := "\x00" + code + opEnd // no local variables
	return []byte("\x00asm\x01\x00\x00\x00" +
		section(1, "\x02\x60\x00\x00\x60\x04\x7f\x7f\x7f\x7f\x01\x7f") +
		section(2, "\x02"+name("wasi_snapshot_preview1")+name("fd_write")+"\x00\x01"+
			name("wasi_snapshot_preview1")+name("poll_oneoff")+"\x00\x01") +
		section(3, "\x01\x00") +
		section(5, "\x01\x00\x01") +
		section(7, "\x02"+name("_start")+"\x00\x02"+name("memory")+"\x02\x00") +
		section(10, "\x01"+name(body)) +
		section(11, "\x01\x00"+i32(0)+opEnd+name(string(memory))))
}

const (
	write  = "\x41\x01" + "\x41\x00" + "\x41\x01" + "\x41\x10" + callWrite + opDrop
	sleep1 = "\x41\x30" + "\x41\xe0\x00" + "\x41\x01" + "\x41\x10" + callPoll + opDrop
)

// spinning runs a loop that does nothing.
func spinning() []byte { return tiny(opLoop+opAgain+opEnd, 0) }

// sleeping sleeps for an hour, and writes for ever then.
func sleeping() []byte { return tiny(sleep1+opLoop+write+opAgain+opEnd, 3600e9) }

// ticking writes 1000 bytes about once in a millisecond.
func ticking() []byte { return tiny(opLoop+write+sleep1+opAgain+opEnd, 1e6) }

// flooding writes as fast as it can.
func flooding() []byte { return tiny(opLoop+write+opAgain+opEnd, 0) }

// growing asks for memory, page by page, writing once for each, until there is
// none.
func growing() []byte {
	return tiny(opLoop+i32(1)+opMemoryGrow+"\x41\x7f\x46"+opIf+opUnreachable+opEnd+write+opAgain+opEnd, 0)
}

// recursing computes for minutes without a loop: fib(50), with
// fib(n) = n < 2 ? n : fib(n-1) + fib(n-2).
func recursing() []byte {
	section := func(id byte, content string) string { return string(appendBlock([]byte{id}, []byte(content))) }
	block := func(s string) string { return string(appendBlock(nil, []byte(s))) }
	fib := "\x00\x20\x00\x41\x02\x48\x04\x40\x20\x00\x0f\x0b" +
		"\x20\x00\x41\x01\x6b\x10\x00\x20\x00\x41\x02\x6b\x10\x00\x6a\x0b"
	return []byte("\x00asm\x01\x00\x00\x00" +
		section(1, "\x02\x60\x01\x7f\x01\x7f\x60\x00\x00") +
		section(3, "\x02\x00\x01") +
		section(7, "\x01"+block("_start")+"\x00\x01") +
		section(10, "\x02"+block(fib)+block("\x00"+i32(50)+"\x10\x00"+opDrop+opEnd)))
}
