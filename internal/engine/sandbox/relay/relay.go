// Package relay is the first process of a sandbox from which a program may ask a
// model. The sandbox has a loopback interface and nothing else, and one Unix socket
// of the service is mounted into it: the relay passes connections to a port of
// loopback on to the socket, byte by byte, while the program runs.
package relay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

// Address is where programs find the model inside the sandbox.
const Address = "127.0.0.1:8787"

// Command is the first argument by which a binary of the service becomes a relay.
// It is no command of the command line: only the service itself uses it.
const Command = "model-relay"

// Argv returns the arguments that run a program with a relay to a socket, where
// binary is the path of the service's own inside the sandbox.
func Argv(binary, socket string, program []string) []string {
	return append([]string{binary, Command, socket}, program...)
}

// Main runs the relay that Argv describes and returns the exit status of its
// program, as a shell does. The arguments are those after Command.
func Main(args []string) int {
	if len(args) < 2 {
		return fail(2, errors.New("usage: SOCKET PROGRAM [ARGUMENT...]"))
	}
	listener, err := net.Listen("tcp", Address)
	if err != nil {
		return fail(1, err)
	}
	go accept(listener, args[0])
	// The sandbox sends SIGTERM to all processes. The relay stays for what the
	// program still has to say; it ends with it. (An ignored signal would be
	// ignored by the program, too.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	// It isn't started by spawn: its environment, which the sandbox has set, is the program's.
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return exitStatus(cmd.Run())
}

func fail(status int, err error) int {
	fmt.Fprintln(os.Stderr, "model relay:", err)
	return status
}

func exitStatus(err error) int {
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case ok:
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal())
		}
		return exit.ExitCode()
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound):
		return fail(127, err)
	}
	return fail(126, err)
}

func accept(listener net.Listener, socket string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go pass(conn, socket)
	}
}

// pass copies both directions until both are closed.
func pass(inside net.Conn, socket string) {
	defer inside.Close()
	outside, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer outside.Close()
	var both sync.WaitGroup
	both.Go(func() { half(outside, inside) })
	both.Go(func() { half(inside, outside) })
	both.Wait()
}

// half closes only the direction that has ended, so that an HTTP client can still read its answer.
func half(to, from net.Conn) {
	_, _ = io.Copy(to, from) // either side may end it
	if c, ok := to.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
}
