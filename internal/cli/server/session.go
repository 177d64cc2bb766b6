// Package server connects the client's commands to a server: its address, the
// stored login, and its errors as faults.
package server

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// defaultServer is where `whetstone serve` listens by default, so that a first try on
// one machine needs no --server.
const defaultServer = "http://127.0.0.1:8080"

// Flags are the flags of every command that talks to a server.
type Flags struct {
	Server string        `placeholder:"URL" help:"Address of the server; by default that of the last login, else http://127.0.0.1:8080."`
	APIKey config.Secret `name:"api-key" placeholder:"KEY" help:"API key; by default that of the stored login."`
}

// Help is shown below the help of each command that has these flags, and no help of its own.
func (f Flags) Help() string { return f.ExitCodes("") }

// ExitCodes returns the exit codes of a command. own are those that only few commands have,
// e.g. "3 local edits are in the way; ".
func (Flags) ExitCodes(own string) string {
	return "Exit codes: 0 done; 1 failed; 2 a flag or an argument is not valid; " + own +
		"5 the key is missing or not valid, or the plan or a permission does not allow it."
}

// A Session is a client with the address of its server. Its methods return the client's
// errors; WithSession converts them with AsFault.
type Session struct {
	*client.Client
	Server string
}

// Address returns the server's address in canonical form, which is also its key in the
// stored credentials: "HTTPS://Example.com/" becomes "https://example.com". An address
// with a user or a query is refused: it would end up in messages and in the lock file,
// with its password.
func (f *Flags) Address(stored Credentials) (string, error) {
	u, err := url.Parse(cmp.Or(f.Server, stored.Default, defaultServer))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fault.Invalid("server", "server must be an address like https://whetstone.example")
	}
	return strings.TrimRight(u.Scheme+"://"+strings.ToLower(u.Host)+u.EscapedPath(), "/"), nil
}

// WithSession calls do with a session that has a key: --api-key, else the stored login
// of that server. Without one, do is not called. It converts the server's errors to
// faults.
func (f *Flags) WithSession(p *term.Program, do func(s *Session) error) error {
	stored, err := LoadCredentials()
	if err != nil {
		return err
	}
	server, err := f.Address(stored)
	if err != nil {
		return err
	}
	key := cmp.Or(string(f.APIKey), stored.Servers[server].APIKey)
	if key == "" {
		return fault.New(fault.Unauthorized,
			"No API key for %s; run `whetstone login --server %s`, or set WHETSTONE_API_KEY", server, server)
	}
	return AsFault(do(New(p, server, key)), server)
}

// uuidPattern matches the ids of the server, which are UUIDs in lower case.
var uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// IsID reports whether a name has the form of an id. The name of an entry may have it,
// too, so callers that accept both look names up first or fall back to them.
func IsID(name string) bool { return uuidPattern.MatchString(name) }

// OwnEntry finds an entry of the caller's organisation by its name or its id. The name
// is tried first; without an entry the error has the status 404.
func (s *Session) OwnEntry(ctx context.Context, name string) (client.Entry, error) {
	entry, err := s.EntryByName(ctx, name)
	if client.Status(err) != http.StatusNotFound || !IsID(name) {
		return entry.Entry, err
	}
	detail, err := s.Entry(ctx, name)
	return detail.Entry.Entry, err
}

// New returns a session with a key, which may be "" for the requests of a login.
func New(p *term.Program, server, key string) *Session {
	return &Session{client.New(client.Options{Server: server, APIKey: key, UserAgent: "whetstone/" + p.Version}), server}
}

// Page returns the address of a page of the dashboard, e.g. Page("skills", "pdf") is
// "https://whetstone.example/skills/pdf". It escapes path in place.
func (s *Session) Page(path ...string) string {
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	return s.Server + "/" + strings.Join(path, "/")
}

// AsFault converts an error of the client to a fault, whose kind decides the exit code.
// nil, faults and errors that it doesn't know are returned unchanged.
func AsFault(err error, server string) error {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return statusFault(e, server)
	}
	if errors.Is(err, client.ErrHash) {
		return fault.New(fault.BadGateway, "The download was changed or truncated on the way: "+
			"its SHA-256 is not that of the version; nothing was installed").Because(err)
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	// A *fs.PathError also implements net.Error (it has Timeout), so files come before
	// the network.
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fileFault(e.Op, e.Path, e.Err).Because(err)
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return fileFault(e.Op, e.New, e.Err).Because(err)
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		cause := err
		// The innermost error is the most useful one, e.g. "connection refused".
		for inner := err; inner != nil; inner = errors.Unwrap(inner) {
			cause = inner
		}
		return fault.New(fault.Unavailable, "Cannot reach %s: %s", server, cause).Because(err)
	}
	return err
}

// fileFault names the file that could not be read or written, and suggests a remedy.
func fileFault(op, path string, err error) *fault.Error {
	advice := "check the path, and run the command again"
	switch {
	case errors.Is(err, fs.ErrPermission):
		advice = "change its permissions, or choose another folder"
	case errors.Is(err, syscall.ENOSPC):
		advice = "free some space, and run the command again"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		advice = "move what is there away, or choose another folder"
	}
	return fault.New(fault.Conflict, "Cannot %s %s: %s; %s", op, term.Plain(path), err, advice)
}

// statusFault keeps the server's message, stripped of control characters: the server
// may be anyone's, and the terminal would interpret them (escape sequence injection). A
// status without a case, e.g. 500, becomes fault.BadGateway.
func statusFault(e *client.Error, server string) error {
	message := term.Plain(e.Message)
	switch e.Status {
	case http.StatusBadRequest:
		issues := make([]fault.Issue, len(e.Issues))
		for i, issue := range e.Issues {
			issues[i] = fault.Issue{Path: issue.Path, Message: term.Plain(issue.Message)}
		}
		if len(issues) > 0 {
			return fault.Issues(issues...).Because(e)
		}
		return fault.New(fault.Malformed, "%s", message).Because(e)
	case http.StatusUnauthorized:
		return fault.New(fault.Unauthorized, "%s rejected the key: %s; run `whetstone login --server %s`",
			server, message, server).Because(e)
	case http.StatusForbidden:
		return fault.New(fault.Denied, "%s", message).Because(e)
	case http.StatusNotFound:
		return fault.New(fault.NotFound, "%s", message).Because(e)
	case http.StatusConflict:
		return fault.New(fault.Conflict, "%s", message).Because(e)
	case http.StatusGone:
		return fault.New(fault.Gone, "%s", message).Because(e)
	}
	return fault.New(fault.BadGateway, "%s", message).Because(e)
}
