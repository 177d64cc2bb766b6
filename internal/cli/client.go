package cli

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/config"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

// defaultServer is where `whetstone serve` listens when nobody says where.
const defaultServer = "http://127.0.0.1:8080"

// remote has the flags of every command that talks to a server.
type remote struct {
	Server string        `placeholder:"URL" help:"Address of the server; that of the last login when empty, else http://127.0.0.1:8080."`
	APIKey config.Secret `name:"api-key" placeholder:"KEY" help:"API key; that of the stored login when empty."`
}

// Help is shown below the help of each command that has these flags.
func (remote) Help() string {
	return `Exit codes: 0 done; 1 failed; 2 a flag or the skill is not valid; ` +
		`3 local edits are in the way (install, sync); 4 not everything is up to date (status); ` +
		`5 no key or a bad one, or the plan or a permission forbids it.`
}

// A session is a client with the server that it talks to.
type session struct {
	*client.Client
	server string
}

// address returns the server that is meant, in one spelling.
func (r *remote) address(stored credentials) (string, error) {
	server := r.Server
	if server == "" {
		server = stored.Default
	}
	if server == "" {
		server = defaultServer
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fault.Invalid("server", "server must be an address like https://whetstone.example")
	}
	return strings.TrimRight(u.Scheme+"://"+strings.ToLower(u.Host)+u.EscapedPath(), "/"), nil
}

// with calls do with a session that has a key, and gives the errors of the
// server the kinds that the command line knows.
func (r *remote) with(p *Program, do func(s *session) error) error {
	stored, err := loadCredentials()
	if err != nil {
		return err
	}
	server, err := r.address(stored)
	if err != nil {
		return err
	}
	key := string(r.APIKey)
	if key == "" {
		key = stored.Servers[server].APIKey
	}
	if key == "" {
		return fault.New(fault.Unauthorized, "No API key for %s; run `whetstone login --server %s`, or set WHETSTONE_API_KEY", server, server)
	}
	return asFault(do(p.session(server, key)), server)
}

func (p *Program) session(server, key string) *session {
	return &session{client.New(client.Options{Server: server, APIKey: key, UserAgent: "whetstone/" + p.Version}), server}
}

// asFault gives an error of the client the kind that its status stands for.
func asFault(err error, server string) error {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return fromStatus(e, server)
	}
	if errors.Is(err, client.ErrHash) {
		return fault.New(fault.BadGateway, "The download was changed or cut on the way: its SHA-256 is not that of the version; nothing was installed").Because(err)
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return fault.New(fault.Unavailable, "Cannot reach %s: %s", server, innermost(err)).Because(err)
	}
	return err
}

func fromStatus(e *client.Error, server string) error {
	message := plain(e.Message)
	switch e.Status {
	case http.StatusBadRequest:
		issues := make([]fault.Issue, len(e.Issues))
		for i, issue := range e.Issues {
			issues[i] = fault.Issue{Path: issue.Path, Message: plain(issue.Message)}
		}
		if len(issues) > 0 {
			return fault.Issues(issues...).Because(e)
		}
		return fault.New(fault.Malformed, "%s", message).Because(e)
	case http.StatusUnauthorized:
		return fault.New(fault.Unauthorized, "%s refuses the key: %s; run `whetstone login --server %s`", server, message, server).Because(e)
	case http.StatusForbidden:
		return fault.New(fault.Denied, "%s", message).Because(e)
	case http.StatusNotFound:
		return fault.New(fault.NotFound, "%s", message).Because(e)
	case http.StatusConflict:
		return fault.New(fault.Conflict, "%s", message).Because(e)
	}
	return fault.New(fault.BadGateway, "%s", message).Because(e)
}

// innermost is the cause of all causes: "connection refused".
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// folderFlag says which folder of skills is meant.
type folderFlag struct {
	Dir string `env:"-" placeholder:"DIR" help:"Folder of the skills; .claude/skills here if there is a .claude, else ~/.claude/skills."`
}

// path returns the folder as an absolute path.
func (f folderFlag) path() (string, error) {
	if f.Dir != "" {
		return filepath.Abs(f.Dir)
	}
	if info, err := os.Stat(".claude"); err == nil && info.IsDir() {
		return filepath.Abs(filepath.Join(".claude", "skills"))
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fault.Invalid("dir", "dir must be given: %s", err)
	}
	return filepath.Join(home, ".claude", "skills"), nil
}
