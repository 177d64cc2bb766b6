package versions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// trustedFlags select what CI publishes without a stored key, and where its ID token
// is. IDToken is a secret: it is not shown in help or errors, and may be an
// environment variable.
type trustedFlags struct {
	Entry        string        `env:"-" placeholder:"ID" help:"In CI without a key: id of the entry to publish, which has a trusted publisher."`
	Organisation string        `env:"-" placeholder:"NAME" help:"In CI without a key: the entry's organisation, in place of --entry."`
	IDToken      config.Secret `name:"id-token" placeholder:"JWT" help:"In CI without a key: ID token of the run, e.g. of GitLab; GitHub Actions is asked for one."`
	IDTokenFile  string        `env:"-" name:"id-token-file" placeholder:"FILE" help:"File that holds the ID token."`
	Audience     string        `env:"-" placeholder:"URL" help:"Audience of the ID token; the address of the server when empty."`
}

// A publishGrant is a session whose key can only push versions of one entry, until
// ExpiresAt. The key is not stored: it expires soon, and the next run gets its own.
type publishGrant struct {
	*server.Session
	ExpiresAt time.Time
	Entry     api.GrantedEntry
}

// listedEntry converts the entry to the type that pushVersion takes.
func listedEntry(e api.GrantedEntry) client.ListedEntry {
	out := client.ListedEntry{OwnedEntry: client.OwnedEntry{Entry: client.Entry{
		ID: e.ID, Name: e.Name, EntryType: e.EntryType, Visibility: e.Visibility,
	}}}
	if e.CurrentVersion != nil && e.ContentHash != nil {
		out.CurrentVersion = &client.CurrentVersion{Version: *e.CurrentVersion, ContentHash: *e.ContentHash}
	}
	return out
}

// The variables with which the runners of GitHub Actions, Gitea and Forgejo offer ID
// tokens.
const (
	requestURLVariable  = "ACTIONS_ID_TOKEN_REQUEST_URL"
	requestAuthVariable = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
	inActionsVariable   = "GITHUB_ACTIONS"
)

// wanted reports whether this is a run of CI that has no key, and so needs an ID token.
// A key or a stored login takes precedence.
func (f *trustedFlags) wanted(s *server.Flags) (bool, error) {
	if s.APIKey != "" {
		return false, nil
	}
	if f.IDToken != "" || f.IDTokenFile != "" {
		return true, nil
	}
	stored, err := server.LoadCredentials()
	if err != nil {
		return false, err
	}
	address, err := s.Address(stored)
	// GITHUB_ACTIONS is set in workflows without the permission, too: they get an
	// error that names it instead of a question for a login.
	inCI := os.Getenv(requestURLVariable) != "" || os.Getenv(inActionsVariable) == "true"
	return err == nil && stored.Servers[address].APIKey == "" && inCI, err
}

// exchange exchanges the ID token of the run for a key to one entry: the one of
// --entry, or the one with that name, which the server looks up among trusted
// publishers.
func (f *trustedFlags) exchange(ctx context.Context, p *term.Program, s *server.Flags, name string) (*publishGrant, error) {
	stored, err := server.LoadCredentials()
	if err != nil {
		return nil, err
	}
	address, err := s.Address(stored)
	if err != nil {
		return nil, err
	}
	// The audience ties the token to this server: another one cannot use it.
	token, err := f.token(ctx, cmp.Or(f.Audience, address))
	if err != nil {
		return nil, err
	}
	body := map[string]string{"token": token, "name": name}
	if f.Organisation != "" {
		body["organisation"] = f.Organisation
	}
	if f.Entry != "" {
		body["entry_id"] = f.Entry
		delete(body, "name")
	}
	var out struct {
		Key       string           `json:"key"`
		ExpiresAt time.Time        `json:"expires_at"`
		Entry     api.GrantedEntry `json:"entry"`
	}
	if err := server.New(p, address, "").Call(ctx, http.MethodPost, "/api/v1/trusted-publishers/token", body, &out); err != nil {
		return nil, explainRefusal(err, address)
	}
	return &publishGrant{server.New(p, address, out.Key), out.ExpiresAt, out.Entry}, nil
}

// explainRefusal adds advice to the refusal of a token. The server's reason stays in
// the message, since it names the claim that differs.
func explainRefusal(err error, address string) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return server.AsFault(err, address)
	}
	message := term.Plain(e.Message)
	switch e.Status {
	case http.StatusUnauthorized:
		return fault.New(fault.Unauthorized, "%s rejected the ID token: %s", address, message).Because(err)
	case http.StatusForbidden:
		return fault.New(fault.Denied, "%s. An admin adds one on the entry's page, or with "+
			"`whetstone trusted-publisher add ENTRY OWNER/REPOSITORY`", message).Because(err)
	case http.StatusBadRequest:
		if len(e.Issues) > 0 && strings.Contains(e.Issues[0].Message, "several organisations") {
			return fault.Invalid("entry", "%s has several organisations: name the entry with --entry, "+
				"or its organisation with --organisation", address).Because(err)
		}
	}
	return server.AsFault(err, address)
}

// maxIDToken is the maximum size of an ID token, in bytes. Tokens have a few
// kilobytes; a larger file is not one.
const maxIDToken = 16 << 10

// token returns the ID token of the run: from a flag, from a file, or from the runner.
func (f *trustedFlags) token(ctx context.Context, audience string) (string, error) {
	if f.IDToken != "" {
		return strings.TrimSpace(string(f.IDToken)), nil
	}
	if f.IDTokenFile != "" {
		file, err := os.Open(f.IDTokenFile)
		if err != nil {
			return "", fault.Invalid("id-token-file", "cannot read --id-token-file: %s", err)
		}
		defer file.Close()
		raw, err := io.ReadAll(io.LimitReader(file, maxIDToken))
		return strings.TrimSpace(string(raw)), err
	}
	address, bearer := os.Getenv(requestURLVariable), os.Getenv(requestAuthVariable)
	if address == "" || bearer == "" {
		return "", fault.New(fault.Unauthorized, "No API key, and the job may not ask for an ID token; "+
			"add `permissions: id-token: write` to the workflow, or set WHETSTONE_API_KEY")
	}
	return requestToken(ctx, address, bearer, audience)
}

// requestToken asks the runner for an ID token. The address is the runner's own, so it
// may be in a private network, which outbound refuses by default.
func requestToken(ctx context.Context, address, bearer, audience string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fault.New(fault.Malformed, "%s is not an address", requestURLVariable)
	}
	query := u.Query()
	query.Set("audience", audience)
	u.RawQuery = query.Encode()
	runner, err := outbound.New(outbound.Options{AllowPrivate: true, MaxBody: 2 * maxIDToken})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", fault.New(fault.Malformed, "%s is not an address", requestURLVariable)
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Accept", "application/json")
	resp, err := runner.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var out struct {
		Value string `json:"value"`
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK || json.Unmarshal(raw, &out) != nil || out.Value == "" {
		return "", fault.New(fault.BadGateway,
			"The runner gave no ID token (status %d); does the workflow have `permissions: id-token: write`?",
			resp.StatusCode)
	}
	return out.Value, nil
}
