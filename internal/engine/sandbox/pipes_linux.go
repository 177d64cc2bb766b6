package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// A pipe has an end for the service and one that bwrap inherits. The service must close its copies
// of theirs after the start, or it would never see the end of the stream.
type pipe struct{ ours, theirs *os.File }

// pipes connect the service with bwrap (status) and the launch script in it
// (start, ready).
type pipes struct{ status, start, ready pipe }

func openPipes() (p pipes, err error) {
	if p.status.ours, p.status.theirs, err = os.Pipe(); err != nil {
		return p, err
	}
	if p.start.theirs, p.start.ours, err = os.Pipe(); err != nil {
		closeAll(p.ours())
		return p, err
	}
	if p.ready.ours, p.ready.theirs, err = os.Pipe(); err != nil {
		closeAll(p.ours())
	}
	return p, err
}

func (p pipes) ours() []*os.File { return []*os.File{p.status.ours, p.start.ours, p.ready.ours} }

// theirs are in the order of their file descriptors in bwrap.
func (p pipes) theirs() []*os.File {
	return []*os.File{p.status.theirs, p.start.theirs, p.ready.theirs}
}

// awaitReady returns a channel that gets a value when the launch script is
// ready, and is closed without one if it ends before that.
func awaitReady(ready *os.File) <-chan struct{} {
	there := make(chan struct{}, 1)
	go func() {
		defer close(there)
		defer ready.Close()
		if _, err := ready.Read(make([]byte, 1)); err == nil {
			there <- struct{}{}
		}
	}()
	return there
}

// memoryFile returns a memfd: a file in memory.
func memoryFile(content string) (*os.File, error) {
	fd, err := unix.MemfdCreate("sandbox", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory file: %w", err)
	}
	f := os.NewFile(uintptr(fd), "sandbox")
	_, err = f.WriteString(content)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // pipes and memfds: no write can be lost
	}
}

// readStatus decodes the lines that bwrap writes to its status pipe.
func readStatus(status *os.File) <-chan statusLine {
	all := make(chan statusLine, 8) // more lines than bwrap writes
	go func() {
		defer close(all)
		defer status.Close()
		// The decoder ends at EOF, which is when bwrap and all that inherited the pipe have ended.
		for lines := json.NewDecoder(status); ; {
			var line statusLine
			if lines.Decode(&line) != nil {
				return
			}
			all <- line
		}
	}()
	return all
}

// wait returns a channel that is closed when bwrap has ended and its output is
// read.
func wait(cmd *exec.Cmd) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its state is in cmd
	}()
	return ended
}
