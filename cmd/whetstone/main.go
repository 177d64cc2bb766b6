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
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/relay"
)

// version is set by the linker.
var version = "dev"

func main() {
	if len(os.Args) > 1 && os.Args[1] == relay.Command {
		os.Exit(relay.Main(os.Args[2:]))
	}
	if os.Getenv("GOGC") == "" {
		// Half the collections, for a heap that is small anyway: ingest gains 9 % on
		// SQLite and 6 % on PostgreSQL (bench ingest, 8 alternating runs).
		debug.SetGCPercent(200)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		// An fsync blocks its thread, which keeps its P until sysmon retakes it, so
		// a machine with few cores would idle. On 2 cores it gains 13 % in bench
		// publish (median of 17 alternating runs).
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	program := &term.Program{Version: version, Stdout: os.Stdout, Stderr: os.Stderr}
	code := cli.Run(ctx, program, os.Args[1:])
	stop()
	os.Exit(code)
}
