// Package gitlab is the code host of GitLab, gitlab.com or a server of one's own. It uses
// an access token: the operator's, or one of the group's own. An installation is the
// projects of one group, with its subgroups, or of one user.
package gitlab

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// PublicURL is the address of the public server.
const PublicURL = "https://gitlab.com"

// Options configure a Host.
type Options struct {
	URL   string // e.g. "https://gitlab.example"; gitlab.com when empty
	Token string
	HTTP  *outbound.Client
}

// Host is the host.Host of a GitLab server.
type Host struct {
	base, token    string // base is the API's URL, without a slash at its end
	http, tarballs *outbound.Client
}

// The limits of calls.
const (
	maxAnswer      = 16 << 20
	maxRedirects   = 5
	callTimeout    = 30 * time.Second
	tarballTimeout = 5 * time.Minute
	maxDescription = 255
	maxBody        = 65_535 // bytes of a note or a description; GitLab allows more
)

// New returns a host. It makes no request.
func New(o Options) (*Host, error) {
	base := strings.TrimRight(cmp.Or(o.URL, PublicURL), "/")
	if _, err := url.Parse(base); err != nil {
		return nil, fault.New(fault.Malformed, "the address of the GitLab server must be http://... or https://...")
	}
	limits := outbound.Limits{Timeout: callTimeout, MaxBody: maxAnswer, MaxRedirects: -1}
	tarballs := outbound.Limits{Timeout: tarballTimeout, MaxBody: host.MaxTarball, MaxRedirects: maxRedirects}
	return &Host{base: base + "/api/v4", token: o.Token, http: o.HTTP.With(limits), tarballs: o.HTTP.With(tarballs)}, nil
}

// tokenFor is the token of calls for an installation.
func (h *Host) tokenFor(at host.Installation) string { return cmp.Or(at.Token, h.token) }

// Provider implements host.Host.
func (h *Host) Provider() host.Provider { return host.GitLab }

// owns reports whether a project is the account's, also in a subgroup of it.
func owns(at host.Installation, fullName string) bool {
	return host.GitLab.CheckFullName(fullName) == nil &&
		strings.HasPrefix(host.AccountKey(fullName), host.AccountKey(at.Account)+"/")
}

// A project is a repository. All calls but the first name it by its number, which is
// never redirected.
type project struct {
	ID             int64
	Path           string
	FullName       string `json:"path_with_namespace"`
	Visibility     string
	DefaultBranch  string     `json:"default_branch"`
	WebURL         string     `json:"web_url"`
	LastActivityAt *time.Time `json:"last_activity_at"`
	Empty          bool       `json:"empty_repo"`
}

func (p *project) out() host.Repository {
	owner, _ := host.SplitName(p.FullName)
	out := host.Repository{
		ID: p.ID, FullName: p.FullName, Owner: owner, Name: p.Path, Visibility: p.Visibility,
		DefaultBranch: p.DefaultBranch, HTMLURL: p.WebURL,
	}
	if !p.Empty && p.LastActivityAt != nil {
		out.PushedAt = new(p.LastActivityAt.UTC())
	}
	return out
}

// path is that of a call about the project.
func (p *project) path(format string, args ...any) string {
	return fmt.Sprintf("/projects/%d", p.ID) + fmt.Sprintf(format, args...)
}

// byID finds the number of a project in the address that the old name of one leads to.
var byID = regexp.MustCompile(`/projects/([0-9]{1,18})(?:[/?]|$)`)

// locate finds a project of the installation's account, also by an old name. The
// operator's token can see projects of other organisations, so the path in the server's
// response is authorized, not the one in the request: a project that was transferred to
// another group is NotFound.
//
// The server redirects an old name to the number, at what it takes for its own address.
// Only the number is used: the token is for the address of the settings.
func (h *Host) locate(ctx context.Context, r host.Repo) (p project, err error) {
	if !owns(r.Installation, r.FullName) {
		return p, notFound(r)
	}
	err = h.get(ctx, r.Installation, "/projects/"+url.PathEscape(r.FullName), &p)
	if moved, ok := errors.AsType[*refusal](err); ok && moved.moved != "" {
		if to := byID.FindStringSubmatch(moved.moved); to != nil {
			err = h.get(ctx, r.Installation, "/projects/"+to[1], &p)
		}
	}
	if fault.Is(err, fault.NotFound) || err == nil && !owns(r.Installation, p.FullName) {
		return project{}, notFound(r)
	}
	return p, err
}

func notFound(r host.Repo) error {
	return fault.New(fault.NotFound, "The repository %s was not found", r.FullName)
}

// An account is a user, also the bot of a group's or project's token.
type account struct {
	ID       int64
	Username string
	Bot      bool
}

// owner is the access level of an owner.
const owner = 50

// CheckAccount implements host.Host: a token must be the group's own, or belong to the
// account or to an owner of the group. The operator's token is not checked: it proves
// nothing about the user who binds the account.
func (h *Host) CheckAccount(ctx context.Context, at host.Installation) (err error) {
	if at.Token == "" {
		return nil
	}
	defer fault.Wrap(&err, "token of %s", at.Account)
	var self account
	err = h.get(ctx, at, "/user", &self)
	if err == nil && !self.Bot && host.AccountKey(self.Username) == host.AccountKey(at.Account) {
		return nil
	}
	if err == nil {
		var mayUse bool
		if mayUse, err = h.ownsGroup(ctx, at, self); mayUse {
			return nil
		}
	}
	if err == nil || fault.Is(err, fault.Denied) || fault.Is(err, fault.NotFound) {
		return fault.New(fault.Conflict,
			"The token must be valid, with the scope api, and be a group access token of %[1]s, or belong to the account %[1]s"+
				" or to an owner of it", at.Account).Because(err)
	}
	return err
}

// ownsGroup reports whether the token of a user is that of a group's owner, or of the
// group itself, which only its owners can make.
func (h *Host) ownsGroup(ctx context.Context, at host.Installation, self account) (bool, error) {
	group := "/groups/" + url.PathEscape(at.Account)
	var found struct{ ID int64 }
	if err := h.get(ctx, at, group+"?with_projects=false", &found); err != nil {
		return false, err
	}
	if self.Bot && strings.HasPrefix(self.Username, fmt.Sprintf("group_%d_bot", found.ID)) {
		return true, nil
	}
	var member struct {
		Level int `json:"access_level"`
	}
	err := h.get(ctx, at, fmt.Sprintf("/groups/%d/members/all/%d", found.ID, self.ID), &member)
	return err == nil && member.Level >= owner, err
}

// Repositories implements host.Host. The account is a group or a user.
func (h *Host) Repositories(ctx context.Context, at host.Installation) (_ []host.Repository, err error) {
	defer fault.Wrap(&err, "repositories of %s", at.Account)
	all := []host.Repository{}
	if host.GitLab.CheckAccountLogin(at.Account) != nil {
		return all, nil
	}
	account := url.PathEscape(at.Account)
	list := func(path string) error {
		return pages(ctx, h, at, path, func(page []project) {
			for _, p := range page {
				if owns(at, p.FullName) {
					all = append(all, p.out())
				}
			}
		})
	}
	err = list("/groups/" + account + "/projects?include_subgroups=true&with_shared=false&order_by=id&sort=asc&per_page=100")
	if fault.Is(err, fault.NotFound) && !strings.Contains(at.Account, "/") {
		err = list("/users/" + account + "/projects?order_by=id&sort=asc&per_page=100")
	}
	if fault.Is(err, fault.NotFound) { // or one that the token may not see
		return all, nil
	}
	slices.SortFunc(all, func(a, b host.Repository) int { return strings.Compare(a.FullName, b.FullName) })
	return all, err
}

// Repository implements host.Host.
func (h *Host) Repository(ctx context.Context, r host.Repo) (_ host.Repository, err error) {
	defer fault.Wrap(&err, "repository %s", r.FullName)
	p, err := h.locate(ctx, r)
	if err != nil {
		return host.Repository{}, err
	}
	return p.out(), nil
}

type commit struct{ ID, Message string }

// Resolve implements host.Host. A short name is looked up as a branch first.
func (h *Host) Resolve(ctx context.Context, r host.Repo, ref string) (_ host.Commit, err error) {
	defer fault.Wrap(&err, "resolve %s in %s", ref, r.FullName)
	p, err := h.locate(ctx, r)
	if err != nil {
		return host.Commit{}, err
	}
	if host.IsSHA(ref) {
		var found commit
		err = h.get(ctx, r.Installation, p.path("/repository/commits/%s", ref), &found)
		return host.Commit{SHA: found.ID, Message: found.Message}, err
	}
	tag, isTag := strings.CutPrefix(ref, "refs/tags/")
	branch, isBranch := strings.CutPrefix(ref, "refs/heads/")
	var found struct{ Commit commit }
	if !isTag {
		err = h.get(ctx, r.Installation, p.path("/repository/branches/%s", url.PathEscape(branch)), &found)
	}
	if isTag || !isBranch && fault.Is(err, fault.NotFound) {
		err = h.get(ctx, r.Installation, p.path("/repository/tags/%s", url.PathEscape(tag)), &found)
	}
	return host.Commit{SHA: found.Commit.ID, Message: found.Commit.Message}, err
}

// Refs implements host.Host.
func (h *Host) Refs(ctx context.Context, r host.Repo) (_ host.Refs, err error) {
	defer fault.Wrap(&err, "refs of %s", r.FullName)
	refs := host.Refs{Heads: map[string]string{}, Tags: map[string]string{}}
	p, err := h.locate(ctx, r)
	if err != nil {
		return refs, err
	}
	type ref struct {
		Name   string
		Commit commit
	}
	list := func(what string, into map[string]string) error {
		return pages(ctx, h, r.Installation, p.path("/repository/%s?pagination=keyset&per_page=100", what), func(page []ref) {
			for _, one := range page {
				into[one.Name] = one.Commit.ID
			}
		})
	}
	if err := list("branches", refs.Heads); err != nil {
		return refs, err
	}
	return refs, list("tags", refs.Tags)
}

// Tree implements host.Host.
func (h *Host) Tree(ctx context.Context, r host.Repo, commit, folder string) (_ *skillpkg.Package, err error) {
	defer fault.Wrap(&err, "files of %s at %s", r.FullName, commit)
	p, err := h.locate(ctx, r)
	if err != nil {
		return nil, err
	}
	if !host.IsSHA(commit) {
		return nil, fault.New(fault.Malformed, "%q is not a commit", commit)
	}
	resp, err := h.do(ctx, r.Installation, h.tarballs, http.MethodGet, p.path("/repository/archive.tar.gz?sha=%s", commit), http.NoBody)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	return host.ReadTarball(ctx, resp.Body, folder)
}

// File implements host.Host.
func (h *Host) File(ctx context.Context, r host.Repo, commit, path string, limit int64) (_ []byte, err error) {
	defer fault.Wrap(&err, "file %s of %s at %s", path, r.FullName, commit)
	p, err := h.locate(ctx, r)
	if err != nil {
		return nil, err
	}
	var file struct {
		Size              int64
		Encoding, Content string
	}
	err = h.get(ctx, r.Installation, p.file(path, commit), &file)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, host.ErrNoFile(path)
	case err != nil:
		return nil, err
	case file.Size > limit:
		return nil, host.ErrLargeFile(path, limit)
	}
	content, err := base64.StdEncoding.DecodeString(file.Content)
	if err != nil || file.Encoding != "base64" {
		return nil, fault.New(fault.BadGateway, "the code host's file has the encoding %q", file.Encoding).Because(err)
	}
	if int64(len(content)) > limit {
		return nil, host.ErrLargeFile(path, limit)
	}
	return content, nil
}

func (p *project) file(path, commit string) string {
	return p.path("/repository/files/%s?ref=%s", url.PathEscape(path), url.QueryEscape(commit))
}

// states are GitLab's names.
var states = map[host.State]string{
	host.StatePending: "pending", host.StateSuccess: "success", host.StateFailure: "failed", host.StateError: "failed",
}

// SetStatus implements host.Host. GitLab refuses a status that has the state already,
// and that is no error. One that is pending with another text is running from then on, so
// that people see the text.
func (h *Host) SetStatus(ctx context.Context, r host.Repo, commit string, s host.Status) (err error) {
	defer fault.Wrap(&err, "status of %s in %s", commit, r.FullName)
	p, err := h.locate(ctx, r)
	if err != nil {
		return err
	}
	in := map[string]any{
		"state": states[s.State], "name": s.Context, "description": text.Ellipsis(s.Description, maxDescription),
	}
	if s.TargetURL != "" {
		in["target_url"] = s.TargetURL
	}
	err = h.postStatus(ctx, r, p, commit, in)
	if cannotTransition(err) && s.State == host.StatePending {
		in["state"] = "running"
		err = h.postStatus(ctx, r, p, commit, in)
	}
	if cannotTransition(err) {
		return nil
	}
	return err
}

// postStatus posts a status. A commit that is on no branch, e.g. the head of a fork's merge
// request, needs the name of a ref.
func (h *Host) postStatus(ctx context.Context, r host.Repo, p project, commit string, in map[string]any) error {
	path := p.path("/statuses/%s", commit)
	_, err := h.send(ctx, r.Installation, http.MethodPost, path, in, nil)
	if !fault.Is(err, fault.NotFound) || in["ref"] != nil {
		return err
	}
	of, problem := h.ofCommit(ctx, r.Installation, p, commit)
	if problem != nil {
		return problem
	}
	i := slices.IndexFunc(of, func(m mergeRequest) bool { return m.SHA == commit })
	if i < 0 {
		return err
	}
	in["ref"] = fmt.Sprintf("refs/merge-requests/%d/head", of[i].Number)
	_, err = h.send(ctx, r.Installation, http.MethodPost, path, in, nil)
	return err
}

func cannotTransition(err error) bool {
	refused, ok := errors.AsType[*refusal](err)
	return ok && strings.Contains(refused.reason, "Cannot transition status")
}

// SetCheck implements host.Host: GitLab has no check-runs.
func (h *Host) SetCheck(context.Context, host.Repo, *host.Check) error { return host.ErrUnsupported }

// SetIssue implements host.Host.
func (h *Host) SetIssue(ctx context.Context, r host.Repo, i *host.Issue) (err error) {
	defer fault.Wrap(&err, "issue in %s", r.FullName)
	p, err := h.locate(ctx, r)
	if err != nil {
		return err
	}
	type issue struct {
		Number      int64 `json:"iid"`
		Description string
		WebURL      string `json:"web_url"`
	}
	if i.Number == 0 {
		var open []issue
		if err := h.get(ctx, r.Installation, p.path("/issues?state=opened&per_page=100"), &open); err != nil {
			return err
		}
		for _, one := range open {
			if strings.Contains(one.Description, i.Marker) {
				i.Number = one.Number
			}
		}
	}
	in := map[string]any{"title": i.Title, "description": body(i.Body)}
	method, path := http.MethodPost, p.path("/issues")
	if i.Number != 0 {
		method, path = http.MethodPut, p.path("/issues/%s", strconv.FormatInt(i.Number, 10))
		in["state_event"] = "reopen"
		if i.Closed {
			in["state_event"] = "close"
		}
	}
	var made issue
	if _, err := h.send(ctx, r.Installation, method, path, in, &made); err != nil {
		return err
	}
	i.Number, i.URL = made.Number, made.WebURL
	return nil
}

// commands are the lines that GitLab takes for quick actions, e.g. /merge. It would run
// them with the rights of the token, and the texts are not ours alone.
var commands = regexp.MustCompile(`(?m)^([ \t]*)/`)

// body makes the text of a note, or of a description, one that only says something.
func body(s string) string {
	return text.EllipsisBytes(commands.ReplaceAllString(strings.ReplaceAll(s, "\r", "\n"), `$1\/`), maxBody)
}

// Prepare implements host.Host: people set up the webhook.
func (h *Host) Prepare(context.Context, host.Repo) error { return nil }
