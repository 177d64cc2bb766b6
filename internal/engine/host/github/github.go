// Package github is the code host of GitHub and GitHub Enterprise. It acts as a
// GitHub App.
package github

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// publicURL is the API of github.com.
const publicURL = "https://api.github.com"

// Options configure a Host.
type Options struct {
	// URL is the base URL of the API; that of github.com when empty. Enterprise
	// servers have it at https://HOST/api/v3.
	URL string
	// AppID and PrivateKey (PEM) are the app's.
	AppID      int64
	PrivateKey []byte
	HTTP       *outbound.Client
	// WritePause is the time between writes of one installation; 0 means a
	// second, as GitHub's documentation asks for.
	WritePause time.Duration
}

// Host is the host.Host of a GitHub App.
type Host struct {
	base     string // the API's URL, without a slash at its end
	app      *appKey
	plain    *outbound.Client // for the app's own calls: they carry its signed JWT, so it follows no redirect
	http     *outbound.Client
	tarballs *outbound.Client
	tokens   tokens
	writes   writeLimiter
}

// The limits of calls. A list of 100 repositories is about 600 kB.
const (
	maxAnswer      = 16 << 20
	maxRedirects   = 5
	callTimeout    = 30 * time.Second
	tarballTimeout = 5 * time.Minute
)

// New returns a host. It makes no request.
func New(o Options) (_ *Host, err error) {
	defer fault.Wrap(&err, "github")
	app, err := newAppKey(o.AppID, o.PrivateKey)
	if err != nil {
		return nil, fault.New(fault.Malformed,
			"the private key of the GitHub App must be a PEM file of an RSA key").Because(err)
	}
	base := strings.TrimRight(cmp.Or(o.URL, publicURL), "/")
	if _, err := url.Parse(base); err != nil {
		return nil, err
	}
	limits := outbound.Limits{Timeout: callTimeout, MaxBody: maxAnswer, MaxRedirects: maxRedirects}
	tarballs := outbound.Limits{Timeout: tarballTimeout, MaxBody: host.MaxTarball, MaxRedirects: maxRedirects}
	over := o.HTTP.With(limits)
	return &Host{
		base: base, app: app, http: over, plain: over.With(outbound.Limits{MaxRedirects: -1}), tarballs: o.HTTP.With(tarballs),
		writes: writeLimiter{pause: cmp.Or(o.WritePause, time.Second)},
	}, nil
}

// Provider implements host.Host.
func (h *Host) Provider() host.Provider { return host.GitHub }

// An account is a user, an organisation or an app.
type account struct {
	ID          int64
	Login, Type string
}

// CheckAccount implements host.Host: the app can look up the account of an
// installation. A missing installation is reported like one of another account.
func (h *Host) CheckAccount(ctx context.Context, at host.Installation) (err error) {
	defer fault.Wrap(&err, "installation %d", at.ID)
	var found struct{ Account account }
	err = h.appCall(ctx, http.MethodGet, fmt.Sprintf("/app/installations/%d", at.ID), &found)
	if err == nil && host.AccountKey(found.Account.Login) == host.AccountKey(at.Account) {
		return nil
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return fault.New(fault.Conflict,
		"The code host has no installation %d of the app on the account %s; take both from the app's installation",
		at.ID, at.Account).Because(err)
}

// Repositories implements host.Host.
func (h *Host) Repositories(ctx context.Context, at host.Installation) (_ []host.Repository, err error) {
	defer fault.Wrap(&err, "repositories of installation %d", at.ID)
	all := []host.Repository{}
	type list struct{ Repositories []repository }
	err = pages(ctx, h, host.Repo{Installation: at}, "/installation/repositories?per_page=100", func(page list) {
		for _, r := range page.Repositories {
			if at.Owns(r.FullName) {
				all = append(all, r.out())
			}
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b host.Repository) int { return strings.Compare(a.FullName, b.FullName) })
	return all, nil
}

type repository struct {
	ID               int64
	FullName         string `json:"full_name"`
	Owner            account
	Name, Visibility string
	DefaultBranch    string     `json:"default_branch"`
	HTMLURL          string     `json:"html_url"`
	PushedAt         *time.Time `json:"pushed_at"`
}

func (r *repository) out() host.Repository {
	out := host.Repository{
		ID: r.ID, FullName: r.FullName, Owner: r.Owner.Login, Name: r.Name, Visibility: r.Visibility,
		DefaultBranch: r.DefaultBranch, HTMLURL: r.HTMLURL,
	}
	if r.PushedAt != nil {
		out.PushedAt = new(r.PushedAt.UTC())
	}
	return out
}

// Repository implements host.Host.
func (h *Host) Repository(ctx context.Context, r host.Repo) (out host.Repository, err error) {
	defer fault.Wrap(&err, "repository %s", r.FullName)
	var found repository
	got, err := h.call(ctx, r, http.MethodGet, "", nil, &found)
	if got.status == http.StatusNotFound || err == nil && !r.Owns(found.FullName) { // deleted, or transferred to another account
		return out, notFound(r)
	}
	if err != nil {
		return out, err
	}
	return found.out(), nil
}

func notFound(r host.Repo) error {
	return fault.New(fault.NotFound, "The repository %s was not found", r.FullName)
}

// escape escapes the characters of a ref or of a file's path, but for its slashes.
func escape(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// Resolve implements host.Host.
func (h *Host) Resolve(ctx context.Context, r host.Repo, ref string) (_ host.Commit, err error) {
	defer fault.Wrap(&err, "resolve %s in %s", ref, r.FullName)
	var found struct {
		SHA    string
		Commit struct{ Message string }
	}
	// The API takes refs without "refs/", and answers 422 for a missing one.
	err = h.get(ctx, r, "/commits/"+escape(strings.TrimPrefix(ref, "refs/"))+"?per_page=1", &found)
	if fault.Is(err, fault.Malformed) {
		err = fault.New(fault.NotFound, "The repository has no branch, tag or commit %s", ref).Because(err)
	}
	return host.Commit{SHA: found.SHA, Message: found.Commit.Message}, err
}

// Refs implements host.Host.
func (h *Host) Refs(ctx context.Context, r host.Repo) (_ host.Refs, err error) {
	defer fault.Wrap(&err, "refs of %s", r.FullName)
	refs := host.Refs{Heads: map[string]string{}, Tags: map[string]string{}}
	type ref struct {
		Name   string
		Commit object
	}
	list := func(path string, into map[string]string) error {
		return pages(ctx, h, r, path+"?per_page=100", func(page []ref) {
			for _, one := range page {
				into[one.Name] = one.Commit.SHA
			}
		})
	}
	if err := list("/branches", refs.Heads); err != nil {
		return refs, err
	}
	return refs, list("/tags", refs.Tags)
}

// Tree implements host.Host.
func (h *Host) Tree(ctx context.Context, r host.Repo, commit, folder string) (_ *skillpkg.Package, err error) {
	defer fault.Wrap(&err, "files of %s at %s", r.FullName, commit)
	if !r.Owns(r.FullName) {
		return nil, notFound(r)
	}
	if !host.IsSHA(commit) {
		return nil, fault.New(fault.Malformed, "%q is not a commit", commit)
	}
	token, err := h.tokens.get(ctx, h, r.ID)
	if err != nil {
		return nil, err
	}
	req, err := h.request(ctx, token, http.MethodGet, "/repos/"+r.FullName+"/tarball/"+commit, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := h.tarballs.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, host.Failure(resp, nil)
	}
	return host.ReadTarball(ctx, resp.Body, folder)
}

// Prepare implements host.Host: the app's webhook covers all repositories.
func (h *Host) Prepare(context.Context, host.Repo) error { return nil }
