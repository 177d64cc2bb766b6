package builder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/spawn"
)

// Programs in RUN lines change users and groups, so that a build needs several. Root
// gives them by itself. Another user has those that /etc/subuid and /etc/subgid give
// him, with the help of newuidmap and newgidmap, which are privileged programs.

// Users are those that the image of a build may have.
type Users int

// The kinds of users.
const (
	OneUser     Users = iota // its own: no RUN lines
	RootUsers                // as many as root wants
	MappedUsers              // those of /etc/subuid
)

// usersTimeout limits the helpers and the probe.
const usersTimeout = 10 * time.Second

// Users finds out which users builds have here. If it is one, the error says why.
func (b *Builder) Users(ctx context.Context) (Users, error) {
	if os.Geteuid() == 0 {
		return RootUsers, nil
	}
	ctx, cancel := context.WithTimeout(ctx, usersTimeout)
	defer cancel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := start(ctx, MappedUsers, process{argv: []string{"true"}})
	if err == nil {
		err = p.Wait()
	}
	if err != nil {
		return OneUser, fault.New(fault.Unavailable,
			"RUN lines need several users, which this service has not (%s); install the package uidmap, give the service's user "+
				"a range in /etc/subuid and /etc/subgid, and let it start setuid programs",
			text.PlainLine(err.Error())).Because(err)
	}
	return MappedUsers, nil
}

// A process is what start starts.
type process struct {
	argv           []string
	stdout, stderr io.Writer
	// files are open as 4 and up.
	files []*os.File
	// confine, if not nil, is called with its id before it begins.
	confine func(pid int) error
}

// start starts a program as root of a user namespace, with a mount namespace of its own. It is
// killed when the thread of the caller ends, who locks it. A shell waits until the process is
// confined and, if they are mapped, has its users: a program that starts before would have no
// capabilities.
func start(ctx context.Context, users Users, p process) (*exec.Cmd, error) {
	cmd := spawn.Command(ctx, nil, "/bin/sh", append([]string{"-c", `read -r go <&3 && exec "$@" 3<&-`, "sh"}, p.argv...)...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = p.stdout, p.stderr, usersTimeout
	cmd.SysProcAttr = namespaces()
	if users == MappedUsers {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: cmd.SysProcAttr.Cloneflags, Pdeathsig: syscall.SIGKILL}
	}
	wait, proceed, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer wait.Close()
	defer proceed.Close()
	cmd.ExtraFiles = append([]*os.File{wait}, p.files...)
	// A session keyring of its own, which the process inherits from this thread. Where
	// the kernel has none, or refuses it in a container, there is none to share.
	_, _ = unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if users == MappedUsers {
		err = mapUsers(ctx, cmd.Process.Pid)
	}
	if err == nil && p.confine != nil {
		err = p.confine(cmd.Process.Pid)
	}
	if err == nil {
		_, err = proceed.WriteString("go\n")
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	return cmd, nil
}

// mapUsers gives the user namespace of a process its users and groups.
func mapUsers(ctx context.Context, pid int) error {
	for _, m := range []struct {
		helper, file string
		own          int
	}{{"newuidmap", "/etc/subuid", os.Geteuid()}, {"newgidmap", "/etc/subgid", os.Getegid()}} {
		first, count, err := subordinate(m.file)
		if err != nil {
			return err
		}
		args := []any{pid, 0, m.own, 1, 1, first, min(count, userCount-1)}
		words := make([]string, len(args))
		for i, a := range args {
			words[i] = fmt.Sprint(a)
		}
		if output, err := spawn.Command(ctx, nil, m.helper, words...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", m.helper, err, bytes.TrimSpace(output))
		}
	}
	return nil
}

// subordinate returns the first range of ids that a file gives the service's user.
func subordinate(file string) (first, count int, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, err
	}
	// /etc/subuid has names or numbers.
	names := []string{strconv.Itoa(os.Geteuid())}
	if u, err := user.LookupId(names[0]); err == nil {
		names = append(names, u.Username)
	}
	for line := range strings.Lines(string(content)) {
		var words [3]string
		if copy(words[:], strings.Split(strings.TrimSpace(line), ":")) != 3 || words[0] != names[0] && words[0] != names[len(names)-1] {
			continue
		}
		first, err1 := strconv.Atoi(words[1])
		count, err2 := strconv.Atoi(words[2])
		if errors.Join(err1, err2) == nil && count > 0 {
			return first, count, nil
		}
	}
	return 0, 0, fmt.Errorf("%s has no range for user %s", file, names[len(names)-1])
}

// Remove removes the folder of a build, in which files may belong to its users. The service can't
// delete files of mapped users, so rm does that as root of a namespace with the same mapping.
func (b *Builder) Remove(dir string) error {
	err := sandbox.Remove(dir)
	if err == nil || os.Geteuid() == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, startErr := start(ctx, MappedUsers, process{argv: []string{"rm", "-rf", "--", dir}})
	if startErr != nil {
		return errors.Join(err, startErr)
	}
	return p.Wait()
}
