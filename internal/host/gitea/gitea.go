// Package gitea is the code host of Gitea and Forgejo, seen with an access
// token. They have no apps: an installation stands for the repositories of
// one owner that the token can see.
package gitea

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	api "code.gitea.io/sdk/gitea"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/outbound"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// Options say which server, and as whom.
type Options struct {
	URL   string // like https://gitea.example
	Token string
	HTTP  *outbound.Client
}

// Host is the host.Host of a Gitea or Forgejo server.
type Host struct {
	url, token     string
	http, tarballs *outbound.Client
}

// The limits of calls.
const (
	maxAnswer      = 16 << 20
	maxRedirects   = 5
	callTimeout    = 30 * time.Second
	tarballTimeout = 5 * time.Minute
	pageSize       = 50 // the most that servers give by default
	maxDescription = 255
)

// New returns a host. It makes no request.
func New(o Options) (*Host, error) {
	if _, err := url.Parse(o.URL); err != nil || o.URL == "" {
		return nil, fault.New(fault.Malformed, "the address of the Gitea server must be http://... or https://...")
	}
	return &Host{
		url: strings.TrimRight(o.URL, "/"), token: o.Token,
		http:     o.HTTP.With(outbound.Limits{Timeout: callTimeout, MaxBody: maxAnswer, MaxRedirects: maxRedirects}),
		tarballs: o.HTTP.With(outbound.Limits{Timeout: tarballTimeout, MaxBody: host.MaxTarball, MaxRedirects: maxRedirects}),
	}, nil
}

// client returns a client for one call: the library keeps the context in it.
func (h *Host) client(ctx context.Context, over *outbound.Client) (*api.Client, error) {
	return api.NewClient(h.url, api.SetHTTPClient(over.HTTP()), api.SetToken(h.token), api.SetContext(ctx),
		api.SetUserAgent("whetstone"), api.SetGiteaVersion(""))
}

// call makes a call and gives its error a kind.
func (h *Host) call(ctx context.Context, do func(*api.Client) (*api.Response, error)) error {
	c, err := h.client(ctx, h.http)
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

// split refuses a repository of another owner than the installation's: the
// token may see more than the organisation that asks.
func split(r host.Repo) (owner, name string, err error) {
	owner, name = r.Split()
	if host.CheckFullName(r.FullName) != nil || !strings.EqualFold(owner, r.Account) {
		return "", "", fault.New(fault.NotFound, "The repository %s was not found", r.FullName)
	}
	return owner, name, nil
}

// Provider implements host.Host.
func (h *Host) Provider() host.Provider { return host.Gitea }

// Repositories implements host.Host.
func (h *Host) Repositories(ctx context.Context, at host.Installation) (_ []host.Repository, err error) {
	defer fault.Wrap(&err, "repositories of %s", at.Account)
	all := []host.Repository{}
	err = h.pages(ctx, func(c *api.Client, page api.ListOptions) (*api.Response, error) {
		list, resp, err := c.ListMyRepos(api.ListReposOptions{ListOptions: page})
		for _, r := range list {
			if out := repository(r); strings.EqualFold(out.Owner, at.Account) {
				all = append(all, out)
			}
		}
		return resp, err
	})
	slices.SortFunc(all, func(a, b host.Repository) int { return strings.Compare(a.FullName, b.FullName) })
	return all, err
}

// pages calls list for every page there is.
func (h *Host) pages(ctx context.Context, list func(*api.Client, api.ListOptions) (*api.Response, error)) error {
	for page := 1; page > 0; {
		err := h.call(ctx, func(c *api.Client) (*api.Response, error) {
			resp, err := list(c, api.ListOptions{Page: page, PageSize: pageSize})
			if err == nil {
				page = resp.NextPage
			}
			return resp, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func repository(r *api.Repository) host.Repository {
	out := host.Repository{
		ID: r.ID, FullName: r.FullName, Name: r.Name, Visibility: "public", DefaultBranch: r.DefaultBranch, HTMLURL: r.HTMLURL,
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
	owner, name, err := split(r)
	if err != nil {
		return out, err
	}
	err = h.call(ctx, func(c *api.Client) (*api.Response, error) {
		found, resp, err := c.GetRepo(owner, name)
		if err == nil {
			out = repository(found)
		}
		return resp, err
	})
	return out, err
}

// Resolve implements host.Host.
func (h *Host) Resolve(ctx context.Context, r host.Repo, ref string) (out host.Commit, err error) {
	defer fault.Wrap(&err, "resolve %s in %s", ref, r.FullName)
	owner, name, err := split(r)
	if err != nil {
		return out, err
	}
	sha := ref
	if !host.IsSHA(ref) {
		if sha, err = h.commitOf(ctx, owner, name, ref); err != nil {
			return out, err
		}
	}
	err = h.call(ctx, func(c *api.Client) (*api.Response, error) {
		found, resp, err := c.GetSingleCommit(owner, name, sha)
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

// commitOf finds the commit of a branch or a tag; of a bare name the branch
// comes first.
func (h *Host) commitOf(ctx context.Context, owner, name, ref string) (sha string, err error) {
	tag, isTag := strings.CutPrefix(ref, "refs/tags/")
	branch, isBranch := strings.CutPrefix(ref, "refs/heads/")
	if !isTag {
		err = h.call(ctx, func(c *api.Client) (*api.Response, error) {
			found, resp, err := c.GetRepoBranch(owner, name, branch)
			if err == nil && found.Commit != nil {
				sha = found.Commit.ID
			}
			return resp, err
		})
		if err == nil || isBranch || !fault.Is(err, fault.NotFound) {
			return sha, err
		}
	}
	err = h.call(ctx, func(c *api.Client) (*api.Response, error) {
		found, resp, err := c.GetTag(owner, name, tag)
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
	owner, name, err := split(r)
	if err != nil {
		return refs, err
	}
	err = h.pages(ctx, func(c *api.Client, page api.ListOptions) (*api.Response, error) {
		branches, resp, err := c.ListRepoBranches(owner, name, api.ListRepoBranchesOptions{ListOptions: page})
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
	return refs, h.pages(ctx, func(c *api.Client, page api.ListOptions) (*api.Response, error) {
		tags, resp, err := c.ListRepoTags(owner, name, api.ListRepoTagsOptions{ListOptions: page})
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
	owner, name, err := split(r)
	if err != nil {
		return nil, err
	}
	if !host.IsSHA(commit) {
		return nil, fault.New(fault.Malformed, "%q is not a commit", commit)
	}
	c, err := h.client(ctx, h.tarballs)
	if err != nil {
		return nil, err
	}
	content, resp, err := c.GetArchiveReader(owner, name, commit, api.TarGZArchive)
	if err != nil {
		return nil, failure(resp, err)
	}
	defer func() { _ = content.Close() }() // it was only read
	return host.ReadTarball(ctx, content, folder)
}

// SetStatus implements host.Host.
func (h *Host) SetStatus(ctx context.Context, r host.Repo, commit string, s host.Status) (err error) {
	defer fault.Wrap(&err, "status of %s in %s", commit, r.FullName)
	owner, name, err := split(r)
	if err != nil {
		return err
	}
	return h.call(ctx, func(c *api.Client) (*api.Response, error) {
		_, resp, err := c.CreateStatus(owner, name, commit, api.CreateStatusOption{
			State: api.StatusState(s.State), Context: s.Context, TargetURL: s.TargetURL,
			Description: host.CutRunes(s.Description, maxDescription),
		})
		return resp, err
	})
}

// SetCheck implements host.Host: there are no check-runs.
func (h *Host) SetCheck(context.Context, host.Repo, *host.Check) error { return host.ErrUnsupported }

// Prepare implements host.Host: the operator sets up the webhook.
func (h *Host) Prepare(context.Context, host.Repo) error { return nil }
