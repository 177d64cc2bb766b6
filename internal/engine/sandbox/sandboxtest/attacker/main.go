//go:build linux

// Command attacker is run by the conformance suite in a sandbox: it makes one
// attack, given by name, and reports whether it succeeded. Every attempt is
// limited, so that it would not harm a machine without a sandbox.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// An attempt returns an error if it was denied, which the suite expects.
type attempt func(args []string) error

// attempts are the attacks by name.
func attempts() map[string]attempt {
	return map[string]attempt{
		"dial":        dial,
		"interfaces":  interfaces,
		"vsock":       vsock,
		"read":        read,
		"secrets":     secrets,
		"build":       inBuild,
		"environment": environment,
		"write":       write,
		"fork":        fork,
		"reserve":     reserve,
		"memory":      memory,
		"children":    children,
		"shared":      sharedMemory,
		"memfd":       memfd,
		"hidden":      hidden,
		"hide":        hide,
		"priority":    priority,
		"fill":        fill,
		"grow":        grow,
		"many":        many,
		"nest":        nest,
		"closed":      closed,
		"spin":        spin,
		"burn":        burn,
		"stay":        stay,
		"daemon":      daemon,
		"hold":        hold,
		"calls":       calls,
		"mount":       mount,
		"namespace":   namespace,
		"root":        becomeRoot,
		"link":        link,
		"print":       printMuch,
		"kill":        killOthers,
		"open":        openFiles,
		"terminal":    terminal,
		"devices":     devices,
		"ask":         ask,
		"echo":        echo,
		"spend":       spend,
		"search":      search,
		"sockets":     sockets,
		"raw":         raw,
	}
}

// The exit statuses.
const (
	denied    = 0
	succeeded = 3
	confused  = 4
)

func main() {
	// A file over RLIMIT_FSIZE must be an error and not the end.
	signal.Ignore(syscall.SIGXFSZ)
	if len(os.Args) == 2 { // an agent has one argument
		os.Args = append(os.Args[:1], strings.Fields(os.Args[1])...)
	}
	if len(os.Args) < 2 || attempts()[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "no such attempt:", os.Args[1:])
		os.Exit(confused)
	}
	if err := attempts()[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Println("denied:", err)
		os.Exit(denied)
	}
	fmt.Println("succeeded:", strings.Join(os.Args[1:], " "))
	os.Exit(succeeded)
}

// each tries several ways; one that is not denied is enough to succeed.
func each[T any](ways []T, try func(T) error) error {
	for _, way := range ways {
		err := try(way)
		if err == nil {
			fmt.Println("not denied:", way)
			return nil
		}
		fmt.Println(way, err)
	}
	return fmt.Errorf("all %d ways", len(ways))
}

// forever waits to be killed, for a minute at most.
func forever() error {
	time.Sleep(time.Minute)
	return nil
}

// environment succeeds if there are other variables than the arguments name.
func environment(expected []string) error {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !slices.Contains(expected, name) {
			fmt.Println("found", variable)
			return nil
		}
	}
	return fmt.Errorf("only %d variables", len(os.Environ()))
}

// printMuch writes 100 MB to both streams, and is denied if it can.
func printMuch([]string) error {
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = 'x'
	}
	for range 100 {
		if _, err := os.Stdout.Write(block); err != nil {
			return nil //nolint:nilerr // a program that cannot write is disturbed
		}
		if _, err := os.Stderr.Write(block); err != nil {
			return nil //nolint:nilerr // see above
		}
	}
	return fmt.Errorf("nobody minds")
}
