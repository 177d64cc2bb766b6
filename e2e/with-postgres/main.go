// Command with-postgres runs a command with a throw-away PostgreSQL server,
// whose URL the command finds in WHETSTONE_TEST_POSTGRES. See
// scripts/with-postgres.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/whetstone-dev/whetstone/internal/platform/store/postgrestest"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "with-postgres:", err)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	if len(args) == 0 {
		return 2, errors.New("which command? usage: scripts/with-postgres COMMAND [ARGUMENT...]")
	}
	settings := postgrestest.Throwaway()
	if folder := os.Getenv("WHETSTONE_TEST_STATEMENTS"); folder != "" {
		settings = append(settings, "logging_collector=on", "log_destination=csvlog", "log_directory="+folder,
			"log_filename=statements.log", "log_rotation_size=0", "log_statement=all", "log_file_mode=0644",
			"log_parameter_max_length=0", "log_parameter_max_length_on_error=0")
	}
	server, err := postgrestest.New(settings...)
	switch {
	case errors.Is(err, postgrestest.ErrNotInstalled) && os.Getenv("WHETSTONE_REQUIRE") != "all":
		fmt.Fprintln(os.Stderr, "with-postgres: PostgreSQL is not installed: tests on it are SKIPPED; run `make setup`")
	case err != nil:
		return 1, err
	default:
		defer server.Close()
		os.Setenv("WHETSTONE_TEST_POSTGRES", server.URL)
	}
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// Ctrl-C goes to the whole process group; the command decides what it means.
	// Other signals are passed on to it.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	go func() {
		for s := range signals {
			if s != syscall.SIGINT {
				_ = cmd.Process.Signal(s)
			}
		}
	}()
	err = cmd.Wait()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(failed.ExitCode(), 1), nil
	}
	return 0, err
}
