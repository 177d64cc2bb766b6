// Package browser opens pages in the browser of the person at the terminal. It is the
// only program that is started without a sandbox: it is the person's own. It owns no tables.
package browser

import (
	"context"
	"errors"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
)

// ErrNone means that there is no browser to open, e.g. on a machine without a display.
var ErrNone = errors.New("there is no browser")

// An Opener starts a browser. The fields are those of the process, except in tests.
type Opener struct {
	System string                   // like runtime.GOOS
	Getenv func(name string) string // like os.Getenv
	Start  func(ctx context.Context, argv []string) error
}

// Of the process.
func Of(getenv func(string) string) Opener {
	return Opener{System: runtime.GOOS, Getenv: getenv, Start: start}
}

// Open opens a page of a server. Other addresses are refused: what a server answers must
// not start anything on the machine. No shell reads the address.
func (o Opener) Open(ctx context.Context, server, page string) error {
	if err := check(server, page); err != nil {
		return err
	}
	argv := o.command()
	if argv == nil {
		return ErrNone
	}
	return o.Start(ctx, append(argv, page))
}

// check compares scheme and host, and lets no white space or control characters through: a terminal
// or a desktop handler could interpret them.
func check(server, page string) error {
	base, err := url.Parse(server)
	if err != nil {
		return err
	}
	u, err := url.Parse(page)
	if err != nil {
		return err
	}
	under := page == server || strings.HasPrefix(page, strings.TrimRight(server, "/")+"/")
	if u.Scheme != "http" && u.Scheme != "https" || u.Scheme != base.Scheme || u.Host != base.Host || u.User != nil || !under ||
		strings.ContainsFunc(page, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return errors.New("the address is not a page of the server")
	}
	return nil
}

// command is what opens an address, without the address; nil if there is nothing.
func (o Opener) command() []string {
	// A CI job has no person who could look at a page.
	if o.Getenv("CI") != "" {
		return nil
	}
	if chosen := strings.Fields(o.Getenv("BROWSER")); len(chosen) > 0 {
		if len(chosen) > 1 || chosen[0] == "none" { // arguments and %s are a shell's business
			return nil
		}
		return chosen
	}
	switch o.System {
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	case "darwin":
		// Over SSH the browser would open on another machine than the person's.
		if o.Getenv("SSH_CONNECTION") != "" {
			return nil
		}
		return []string{"open"}
	}
	if o.Getenv("DISPLAY") == "" && o.Getenv("WAYLAND_DISPLAY") == "" {
		return nil
	}
	return []string{"xdg-open"}
}

// start starts a program and does not wait for it: a browser may run for hours.
func start(_ context.Context, argv []string) error {
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // the person's own browser, which outlives the command
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
