// Package github is the code host of GitHub and GitHub Enterprise. It acts as a
// GitHub App.
package github

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	api "github.com/google/go-github/v89/github"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// publicURL is the API of github.com.
const publicURL = "https://api.github.com/"

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
	base     string
	origin   *url.URL
	app      *api.Client
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
	base := strings.TrimRight(cmp.Or(o.URL, publicURL), "/") + "/"
	origin, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	limits := outbound.Limits{Timeout: callTimeout, MaxBody: maxAnswer, MaxRedirects: maxRedirects}
	tarballs := outbound.Limits{Timeout: tarballTimeout, MaxBody: host.MaxTarball, MaxRedirects: maxRedirects}
	h := &Host{
		base: base, origin: origin, http: o.HTTP.With(limits), tarballs: o.HTTP.With(tarballs),
		writes: writeLimiter{pause: cmp.Or(o.WritePause, time.Second)},
	}
	// The app's own calls follow no redirect: they carry its signed JWT.
	plain := h.http.With(outbound.Limits{MaxRedirects: -1}).HTTP()
	signer, err := newAppSigner(o.AppID, o.PrivateKey, plain.Transport)
	if err != nil {
		return nil, fault.New(fault.Malformed,
			"the private key of the GitHub App must be a PEM file of an RSA key").Because(err)
	}
	h.app, err = h.client(plain, signer)
	return h, err
}

func (h *Host) client(c *http.Client, transport http.RoundTripper) (*api.Client, error) {
	return api.NewClient(api.WithHTTPClient(c), api.WithTransport(transport), api.WithURLs(&h.base, &h.base),
		api.WithUserAgent("whetstone"), api.WithDisableRateLimitCheck())
}

// bearer sends a token to the API only, and not to where it redirects.
type bearer struct {
	token  string
	origin *url.URL
	next   http.RoundTripper
}

// RoundTrip sets the header.
func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("Authorization")
	if req.URL.Scheme == b.origin.Scheme && req.URL.Host == b.origin.Host {
		req.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(req)
}

// Provider implements host.Host.
func (h *Host) Provider() host.Provider { return host.GitHub }

// call makes a call for an installation. It retries once with a new token if the
// cached one is not accepted.
func (h *Host) call(ctx context.Context, installation int64, do func(*api.Client) (*api.Response, error)) error {
	for attempt := 0; ; attempt++ {
		token, err := h.tokens.get(ctx, h, installation)
		if err != nil {
			return err
		}
		web := h.http.HTTP()
		c, err := h.client(web, &bearer{token: token, origin: h.origin, next: web.Transport})
		if err != nil {
			return err
		}
		resp, err := do(c)
		if err == nil {
			return nil
		}
		if resp == nil || resp.StatusCode != http.StatusUnauthorized || attempt > 0 {
			return failure(resp, err)
		}
		h.tokens.invalidate(installation)
	}
}

// failure is host.Failure for a response that may be nil.
func failure(resp *api.Response, err error) error {
	if resp == nil {
		return host.Failure(nil, err)
	}
	return host.Failure(resp.Response, err)
}

// CheckAccount implements host.Host: the app can look up the account of an
// installation. A missing installation is reported like one of another account.
func (h *Host) CheckAccount(ctx context.Context, at host.Installation) (err error) {
	defer fault.Wrap(&err, "installation %d", at.ID)
	found, resp, err := h.app.Apps.GetInstallation(ctx, at.ID)
	if err == nil && host.AccountKey(found.GetAccount().GetLogin()) == host.AccountKey(at.Account) {
		return nil
	}
	if err != nil {
		if err = appFailure(resp, err); !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return fault.New(fault.Conflict,
		"The code host has no installation %d of the app on the account %s; take both from the app's installation",
		at.ID, at.Account).Because(err)
}

// Repositories implements host.Host.
func (h *Host) Repositories(ctx context.Context, at host.Installation) (_ []host.Repository, err error) {
	defer fault.Wrap(&err, "repositories of installation %d", at.ID)
	all := []host.Repository{}
	err = h.pages(ctx, at.ID, func(c *api.Client, page api.ListOptions) (*api.Response, error) {
		list, resp, err := c.Apps.ListRepos(ctx, &page)
		if err != nil {
			return resp, err
		}
		for _, r := range list.Repositories {
			if out := repository(r); at.Owns(out.FullName) {
				all = append(all, out)
			}
		}
		return resp, nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b host.Repository) int { return strings.Compare(a.FullName, b.FullName) })
	return all, nil
}

func repository(r *api.Repository) host.Repository {
	out := host.Repository{
		ID: r.GetID(), FullName: r.GetFullName(), Owner: r.GetOwner().GetLogin(), Name: r.GetName(),
		Visibility: r.GetVisibility(), DefaultBranch: r.GetDefaultBranch(), HTMLURL: r.GetHTMLURL(),
	}
	if r.PushedAt != nil {
		at := r.GetPushedAt().UTC()
		out.PushedAt = &at
	}
	return out
}

// Repository implements host.Host.
func (h *Host) Repository(ctx context.Context, r host.Repo) (out host.Repository, err error) {
	defer fault.Wrap(&err, "repository %s", r.FullName)
	owner, name, err := splitOwned(r)
	if err != nil {
		return out, err
	}
	missing := false
	err = h.call(ctx, r.ID, func(c *api.Client) (*api.Response, error) {
		found, resp, err := c.Repositories.Get(ctx, owner, name)
		if err == nil {
			out = repository(found)
		}
		missing = resp != nil && resp.StatusCode == http.StatusNotFound
		return resp, err
	})
	if missing || err == nil && !r.Owns(out.FullName) { // deleted, or transferred to another account
		return host.Repository{}, notFound(r)
	}
	return out, err
}

// splitOwned refuses a repository of another owner than the installation's: a
// token can also read public repositories of others.
func splitOwned(r host.Repo) (owner, name string, err error) {
	if !r.Owns(r.FullName) {
		return "", "", notFound(r)
	}
	owner, name = r.Split()
	return owner, name, nil
}

func notFound(r host.Repo) error {
	return fault.New(fault.NotFound, "The repository %s was not found", r.FullName)
}

// Resolve implements host.Host.
func (h *Host) Resolve(ctx context.Context, r host.Repo, ref string) (out host.Commit, err error) {
	defer fault.Wrap(&err, "resolve %s in %s", ref, r.FullName)
	owner, name, err := splitOwned(r)
	if err != nil {
		return out, err
	}
	// The API takes refs without "refs/". A branch name may contain characters
	// that must be escaped in a path.
	path := (&url.URL{Path: strings.TrimPrefix(ref, "refs/")}).EscapedPath()
	err = h.call(ctx, r.ID, func(c *api.Client) (*api.Response, error) {
		found, resp, err := c.Repositories.GetCommit(ctx, owner, name, path, &api.ListOptions{PerPage: 1})
		if err == nil {
			out = host.Commit{SHA: found.GetSHA(), Message: found.GetCommit().GetMessage()}
		}
		return resp, err
	})
	if fault.Is(err, fault.Malformed) { // the API answers 422 for a missing ref
		err = fault.New(fault.NotFound, "The repository has no branch, tag or commit %s", ref).Because(err)
	}
	return out, err
}

// Refs implements host.Host.
func (h *Host) Refs(ctx context.Context, r host.Repo) (_ host.Refs, err error) {
	defer fault.Wrap(&err, "refs of %s", r.FullName)
	refs := host.Refs{Heads: map[string]string{}, Tags: map[string]string{}}
	owner, name, err := splitOwned(r)
	if err != nil {
		return refs, err
	}
	err = h.pages(ctx, r.ID, func(c *api.Client, page api.ListOptions) (*api.Response, error) {
		branches, resp, err := c.Repositories.ListBranches(ctx, owner, name, &api.BranchListOptions{ListOptions: page})
		for _, b := range branches {
			refs.Heads[b.GetName()] = b.GetCommit().GetSHA()
		}
		return resp, err
	})
	if err != nil {
		return refs, err
	}
	return refs, h.pages(ctx, r.ID, func(c *api.Client, page api.ListOptions) (*api.Response, error) {
		tags, resp, err := c.Repositories.ListTags(ctx, owner, name, &page)
		for _, t := range tags {
			refs.Tags[t.GetName()] = t.GetCommit().GetSHA()
		}
		return resp, err
	})
}

// pages calls list for every page.
func (h *Host) pages(
	ctx context.Context, installation int64, list func(*api.Client, api.ListOptions) (*api.Response, error),
) error {
	complete, err := h.somePages(ctx, installation, host.MaxPages, list)
	if err == nil && !complete {
		return host.ErrTooManyPages()
	}
	return err
}

// somePages calls list for the first pages, and reports whether these are all.
func (h *Host) somePages(
	ctx context.Context, installation int64, most int, list func(*api.Client, api.ListOptions) (*api.Response, error),
) (complete bool, err error) {
	page := api.ListOptions{PerPage: 100}
	for range most {
		var resp *api.Response
		err := h.call(ctx, installation, func(c *api.Client) (_ *api.Response, err error) {
			resp, err = list(c, page)
			return resp, err
		})
		if err != nil || resp.NextPage == 0 {
			return true, err
		}
		page.Page = resp.NextPage
	}
	return false, nil
}

// Tree implements host.Host.
func (h *Host) Tree(ctx context.Context, r host.Repo, commit, folder string) (_ *skillpkg.Package, err error) {
	defer fault.Wrap(&err, "files of %s at %s", r.FullName, commit)
	owner, name, err := splitOwned(r)
	if err != nil {
		return nil, err
	}
	if !host.IsSHA(commit) {
		return nil, fault.New(fault.Malformed, "%q is not a commit", commit)
	}
	token, err := h.tokens.get(ctx, h, r.ID)
	if err != nil {
		return nil, err
	}
	address := h.base + "repos/" + owner + "/" + name + "/tarball/" + commit
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("User-Agent", "whetstone")
	resp, err := h.tarballs.Do(req) // drops the token when it is redirected to another origin
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
