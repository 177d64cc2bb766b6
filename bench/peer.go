package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// peerCommand makes this program serve as a peer instead, in a process of its
// own: it is the least that a Go server can do.
const peerCommand = "peer"

// servePeer serves until the process is told to end: `bytes FILE` answers
// every request with the file as JSON from memory, `files FOLDER` serves a
// folder, and `model PAUSE` streams the answer of a model, token by token.
func servePeer(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: bench %s bytes|files|model PATH|PAUSE", peerCommand)
	}
	handler := http.FileServer(http.Dir(args[1]))
	switch args[0] {
	case "model":
		pause, err := time.ParseDuration(args[1])
		if err != nil {
			return err
		}
		handler = streamAnswer(pause)
	case "bytes":
		content, err := os.ReadFile(args[1])
		if err != nil {
			return err
		}
		handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(content) // the client is gone if this fails
		})
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "listening on http://%s\n", listener.Addr())
	server := &http.Server{Handler: handler} // the only client is the benchmark
	context.AfterFunc(ctx, func() { _ = server.Close() })
	_ = server.Serve(listener) // it ends when it is told to
	return nil
}

// startPeer starts this program as a peer.
func startPeer(ctx context.Context, args ...string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startServer(exec.CommandContext(ctx, self, append([]string{peerCommand}, args...)...))
}
