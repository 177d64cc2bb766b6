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

// A pipe has an end here and one that bwrap inherits.
type pipe struct{ ours, theirs *os.File }

// pipes connect the service with bwrap and the launcher in it.
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

// theirs are in the order of their descriptors in bwrap.
func (p pipes) theirs() []*os.File {
	return []*os.File{p.status.theirs, p.start.theirs, p.ready.theirs}
}

// await says when the launcher has written; it says nothing, and ends, if the
// launcher ends before.
func await(ready *os.File) <-chan struct{} {
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

// memoryFile returns a file that is on no disk.
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
		_ = f.Close() // nothing was written that could be lost
	}
}

// listen passes on what bwrap says.
func listen(status *os.File) <-chan news {
	all := make(chan news, 8) // more than it ever says
	go func() {
		defer close(all)
		defer status.Close()
		for lines := json.NewDecoder(status); ; {
			var line news
			if lines.Decode(&line) != nil {
				return
			}
			all <- line
		}
	}()
	return all
}

// wait ends what it returns when bwrap has ended and its output is read.
func wait(cmd *exec.Cmd) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its state is in cmd
	}()
	return ended
}
