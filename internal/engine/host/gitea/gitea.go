// Package gitea is the code host of Gitea and Forgejo. It uses an access token:
// the operator's, or one of the account's own. There are no apps: an
// installation is the repositories of one owner that the token can see.
package gitea

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	api "code.gitea.io/sdk/gitea"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// Options configure a Host.
type Options struct {
	URL   string // e.g. "https://gitea.example"
	Token string
	HTTP  *outbound.Client
}

// Host is the host.Host of a Gitea or Forgejo server.
type Host struct {
	url, token     string
	http, tarballs *outbound.Client
	// following follows redirects, e.g. from the old name of a repository.
	following *outbound.Client
}

// The limits of calls.
const (
	maxAnswer      = 16 << 20
	maxRedirects   = 5
	callTimeout    = 30 * time.Second
	tarballTimeout = 5 * time.Minute
	pageSize       = 50 // the servers' default limit
	maxDescription = 255
)

// New returns a host. It makes no request.
func New(o Options) (*Host, error) {
	if _, err := url.Parse(o.URL); err != nil || o.URL == "" {
		return nil, fault.New(fault.Malformed, "the address of the Gitea server must be http://... or https://...")
	}
	limits := outbound.Limits{Timeout: callTimeout, MaxBody: maxAnswer, MaxRedirects: -1}
	following := outbound.Limits{Timeout: callTimeout, MaxBody: maxAnswer, MaxRedirects: maxRedirects}
	// The server may redirect to its object storage.
	tarballs := outbound.Limits{Timeout: tarballTimeout, MaxBody: host.MaxTarball, MaxRedirects: maxRedirects}
	return &Host{
		url: strings.TrimRight(o.URL, "/"), token: o.Token,
		http: o.HTTP.With(limits), following: o.HTTP.With(following), tarballs: o.HTTP.With(tarballs),
	}, nil
}

// client returns a client for one call: the library keeps the context in it.
func (h *Host) client(ctx context.Context, at host.Installation, over *outbound.Client) (*api.Client, error) {
	return api.NewClient(h.url, api.SetHTTPClient(over.HTTP()), api.SetToken(cmp.Or(at.Token, h.token)),
		api.SetContext(ctx), api.SetUserAgent("whetstone"), api.SetGiteaVersion(""))
}

// call makes a call and gives its error a kind.
func (h *Host) call(ctx context.Context, at host.Installation, do func(*api.Client) (*api.Response, error)) error {
	return h.callOver(ctx, at, h.http, do)
}

func (h *Host) callOver(
	ctx context.Context, at host.Installation, over *outbound.Client,
	do func(*api.Client) (*api.Response, error),
) error {
	c, err := h.client(ctx, at, over)
	if err != nil {
		return err
	}
	resp, err := do(c)
	return failure(resp, err)
}

func failure(resp *api.Response, err error) error {
	if err == nil {
		return nil
	}
	if resp == nil {
		return host.Failure(nil, err)
	}
	return host.Failure(resp.Response, err)
}

// locate finds a repository of the installation's account, also by an old name.
// The operator's token can see repositories of other organisations, so the owner
// in the server's response is authorized, not the one in the request: a
// repository that was transferred to another account is NotFound.
func (h *Host) locate(ctx context.Context, r host.Repo) (out host.Repository, err error) {
	if !r.Owns(r.FullName) {
		return out, notFound(r)
	}
	owner, name := r.Split()
	err = h.callOver(ctx, r.Installation, h.following, func(c *api.Client) (*api.Response, error) {
		found, resp, err := c.GetRepo(owner, name)
		if err == nil {
			out = repository(found)
		}
		return resp, err
	})
	if fault.Is(err, fault.NotFound) || err == nil && !r.Owns(out.FullName) {
		return host.Repository{}, notFound(r)
	}
	return out, err
}

func notFound(r host.Repo) error {
	return fault.New(fault.NotFound, "The repository %s was not found", r.FullName)
}

// Provider implements host.Host.
func (h *Host) Provider() host.Provider { return host.Gitea }

// CheckAccount implements host.Host: a token must belong to the account, or to
// an owner or administrator of the organisation. The operator's token is not
// checked: it proves nothing about the user who binds the account.
func (h *Host) CheckAccount(ctx context.Context, at host.Installation) (err error) {
	if at.Token == "" {
		return nil
	}
	defer fault.Wrap(&err, "token of %s", at.Account)
	allowed := false
	err = h.call(ctx, at, func(c *api.Client) (*api.Response, error) {
		user, resp, err := c.GetMyUserInfo()
		if err != nil {
			return resp, err
		}
		if allowed = host.AccountKey(user.UserName) == host.AccountKey(at.Account); allowed {
			return resp, nil
		}
		may, resp, err := c.GetOrgPermissions(at.Account, user.UserName)
		allowed = err == nil && (may.IsOwner || may.IsAdmin)
		return resp, err
	})
	switch {
	case allowed:
		return nil
	case err == nil || fault.Is(err, fault.Denied) || fault.Is(err, fault.NotFound):
		return fault.New(fault.Conflict,
			"The token must be valid, with the scopes read:user, read:organization and read:repository,"+
				" and belong to the account %s or to an owner of it", at.Account).Because(err)
	}
	return err
}

// Repositories implements host.Host.
func (h *Host) Repositories(ctx context.Context, at host.Installation) (_ []host.Repository, err error) {
	defer fault.Wrap(&err, "repositories of %s", at.Account)
	all := []host.Repository{}
	err = h.pages(ctx, at, func(c *api.Client, page api.ListOptions) (*api.Response, error) {
		list, resp, err := c.ListMyRepos(api.ListReposOptions{ListOptions: page})
		for _, r := range list {
			if out := repository(r); at.Owns(out.FullName) {
				all = append(all, out)
			}
		}
		return resp, err
	})
	slices.SortFunc(all, func(a, b host.Repository) int { return strings.Compare(a.FullName, b.FullName) })
	return all, err
}

// pages calls list for every page.
func (h *Host) pages(
	ctx context.Context, at host.Installation, list func(*api.Client, api.ListOptions) (*api.Response, error),
) error {
	complete, err := h.somePages(ctx, at, host.MaxPages, list)
	if err == nil && !complete {
		return host.ErrTooManyPages()
	}
	return err
}

// somePages calls list for the first pages, and reports whether these are all.
func (h *Host) somePages(
	ctx context.Context, at host.Installation, most int, list func(*api.Client, api.ListOptions) (*api.Response, error),
) (complete bool, err error) {
	page := 1
	for range most {
		err := h.call(ctx, at, func(c *api.Client) (*api.Response, error) {
			resp, err := list(c, api.ListOptions{Page: page, PageSize: pageSize})
			if err == nil {
				page = resp.NextPage
			}
			return resp, err
		})
		if err != nil || page == 0 {
			return true, err
		}
	}
	return false, nil
}

func repository(r *api.Repository) host.Repository {
	out := host.Repository{
		ID: r.ID, FullName: r.FullName, Name: r.Name, Visibility: "public",
		DefaultBranch: r.DefaultBranch, HTMLURL: r.HTMLURL,
	}
	out.Owner, _, _ = strings.Cut(r.FullName, "/")
	switch {
	case r.Private:
		out.Visibility = "private"
	case r.Internal:
		out.Visibility = "internal"
	}
	if !r.Empty && !r.Updated.IsZero() {
		at := r.Updated.UTC()
		out.PushedAt = &at
	}
	return out
}

// Repository implements host.Host.
func (h *Host) Repository(ctx context.Context, r host.Repo) (out host.Repository, err error) {
	defer fault.Wrap(&err, "repository %s", r.FullName)
	return h.locate(ctx, r)
}

// Resolve implements host.Host.
func (h *Host) Resolve(ctx context.Context, r host.Repo, ref string) (out host.Commit, err error) {
	defer fault.Wrap(&err, "resolve %s in %s", ref, r.FullName)
	at, err := h.locate(ctx, r)
	if err != nil {
		return out, err
	}
	sha := ref
	if !host.IsSHA(ref) {
		if sha, err = h.commitOf(ctx, r.Installation, at, ref); err != nil {
			return out, err
		}
	}
	err = h.call(ctx, r.Installation, func(c *api.Client) (*api.Response, error) {
		found, resp, err := c.GetSingleCommit(at.Owner, at.Name, sha)
		if err != nil {
			return resp, err
		}
		out = host.Commit{SHA: cmp.Or(found.SHA, sha)}
		if found.RepoCommit != nil {
			out.Message = found.RepoCommit.Message
		}
		return resp, nil
	})
	return out, err
}

// commitOf finds the commit of a branch or a tag. A short name is looked up as a
// branch first.
func (h *Host) commitOf(
	ctx context.Context, i host.Installation, at host.Repository, ref string,
) (sha string, err error) {
	tag, isTag := strings.CutPrefix(ref, "refs/tags/")
	branch, isBranch := strings.CutPrefix(ref, "refs/heads/")
	if !isTag {
		err = h.call(ctx, i, func(c *api.Client) (*api.Response, error) {
			found, resp, err := c.GetRepoBranch(at.Owner, at.Name, branch)
			if err == nil && found.Commit != nil {
				sha = found.Commit.ID
			}
			return resp, err
		})
		if err == nil || isBranch || !fault.Is(err, fault.NotFound) {
			return sha, err
		}
	}
	err = h.call(ctx, i, func(c *api.Client) (*api.Response, error) {
		found, resp, err := c.GetTag(at.Owner, at.Name, tag)
		if err == nil && found.Commit != nil {
			sha = found.Commit.SHA
		}
		return resp, err
	})
	return sha, err
}

// Refs implements host.Host.
func (h *Host) Refs(ctx context.Context, r host.Repo) (_ host.Refs, err error) {
	defer fault.Wrap(&err, "refs of %s", r.FullName)
	refs := host.Refs{Heads: map[string]string{}, Tags: map[string]string{}}
	at, err := h.locate(ctx, r)
	if err != nil {
		return refs, err
	}
	err = h.pages(ctx, r.Installation, func(c *api.Client, page api.ListOptions) (*api.Response, error) {
		branches, resp, err := c.ListRepoBranches(at.Owner, at.Name, api.ListRepoBranchesOptions{ListOptions: page})
		for _, b := range branches {
			if b.Commit != nil {
				refs.Heads[b.Name] = b.Commit.ID
			}
		}
		return resp, err
	})
	if err != nil {
		return refs, err
	}
	return refs, h.pages(ctx, r.Installation, func(c *api.Client, page api.ListOptions) (*api.Response, error) {
		tags, resp, err := c.ListRepoTags(at.Owner, at.Name, api.ListRepoTagsOptions{ListOptions: page})
		for _, t := range tags {
			if t.Commit != nil {
				refs.Tags[t.Name] = t.Commit.SHA
			}
		}
		return resp, err
	})
}

// Tree implements host.Host.
func (h *Host) Tree(ctx context.Context, r host.Repo, commit, folder string) (_ *skillpkg.Package, err error) {
	defer fault.Wrap(&err, "files of %s at %s", r.FullName, commit)
	at, err := h.locate(ctx, r)
	if err != nil {
		return nil, err
	}
	if !host.IsSHA(commit) {
		return nil, fault.New(fault.Malformed, "%q is not a commit", commit)
	}
	c, err := h.client(ctx, r.Installation, h.tarballs)
	if err != nil {
		return nil, err
	}
	content, resp, err := c.GetArchiveReader(at.Owner, at.Name, commit, api.TarGZArchive)
	if err != nil {
		return nil, failure(resp, err)
	}
	defer func() { _ = content.Close() }() // it was only read
	return host.ReadTarball(ctx, content, folder)
}

// SetStatus implements host.Host.
func (h *Host) SetStatus(ctx context.Context, r host.Repo, commit string, s host.Status) (err error) {
	defer fault.Wrap(&err, "status of %s in %s", commit, r.FullName)
	at, err := h.locate(ctx, r)
	if err != nil {
		return err
	}
	return h.call(ctx, r.Installation, func(c *api.Client) (*api.Response, error) {
		_, resp, err := c.CreateStatus(at.Owner, at.Name, commit, api.CreateStatusOption{
			State: api.StatusState(s.State), Context: s.Context, TargetURL: s.TargetURL,
			Description: text.Ellipsis(s.Description, maxDescription),
		})
		return resp, err
	})
}

// SetCheck implements host.Host: Gitea has no check-runs.
func (h *Host) SetCheck(context.Context, host.Repo, *host.Check) error { return host.ErrUnsupported }

// SetIssue implements host.Host.
func (h *Host) SetIssue(ctx context.Context, r host.Repo, i *host.Issue) (err error) {
	defer fault.Wrap(&err, "issue in %s", r.FullName)
	at, err := h.locate(ctx, r)
	if err != nil {
		return err
	}
	if i.Number == 0 {
		err = h.call(ctx, r.Installation, func(c *api.Client) (*api.Response, error) {
			open, resp, err := c.ListRepoIssues(at.Owner, at.Name, api.ListIssueOption{
				ListOptions: api.ListOptions{Page: 1, PageSize: pageSize}, State: api.StateOpen, Type: api.IssueTypeIssue,
			})
			for _, one := range open {
				if strings.Contains(one.Body, i.Marker) {
					i.Number = one.Index
				}
			}
			return resp, err
		})
		if err != nil {
			return err
		}
	}
	return h.call(ctx, r.Installation, func(c *api.Client) (*api.Response, error) {
		var made *api.Issue
		var resp *api.Response
		var err error
		if i.Number == 0 {
			made, resp, err = c.CreateIssue(at.Owner, at.Name,
				api.CreateIssueOption{Title: i.Title, Body: i.Body, Closed: i.Closed})
		} else {
			state := api.StateOpen
			if i.Closed {
				state = api.StateClosed
			}
			made, resp, err = c.EditIssue(at.Owner, at.Name, i.Number,
				api.EditIssueOption{Title: i.Title, Body: &i.Body, State: &state})
		}
		if err == nil {
			i.Number, i.URL = made.Index, made.HTMLURL
		}
		return resp, err
	})
}

// Prepare implements host.Host: the operator sets up the webhook.
func (h *Host) Prepare(context.Context, host.Repo) error { return nil }
