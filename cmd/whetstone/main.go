// Command whetstone is the whole product: the service, its administration
// and its client.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/whetstone-dev/whetstone/internal/cli"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// version is set by the linker.
var version = "dev"

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200) // half the collections, for a heap that is small anyway
	}
	if os.Getenv("GOMAXPROCS") == "" {
		// Who waits for a file to be safe on the disk holds on to a processor for
		// a while: a machine of few would stand idle.
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	program := &term.Program{Version: version, Stdout: os.Stdout, Stderr: os.Stderr}
	code := cli.Run(ctx, program, os.Args[1:])
	stop()
	os.Exit(code)
}
