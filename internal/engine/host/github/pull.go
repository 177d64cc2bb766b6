package github

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// maxPullFiles is how many files of a pull request GitHub lists.
const maxPullFiles = 3000

// An object of git.
type object struct{ SHA string }

type pull struct {
	Number         int64
	Title, State   string
	HTMLURL        string `json:"html_url"`
	User           account
	Head, Base     pullSide
	Draft, Merged  bool
	CreatedAt      time.Time  `json:"created_at"`
	MergedAt       *time.Time `json:"merged_at"`
	MergeCommitSHA string     `json:"merge_commit_sha"`
	Commits        int
}

// A pullSide has no repository once that is deleted.
type pullSide struct {
	Ref, SHA string
	Repo     struct{ ID int64 }
}

func (p *pull) out() host.Pull {
	return host.Pull{
		Number: p.Number, Title: p.Title, URL: p.HTMLURL, Head: p.Head.SHA, Base: p.Base.Ref,
		Fork: p.Head.Repo.ID == 0 || p.Head.Repo.ID != p.Base.Repo.ID, Draft: p.Draft, Closed: p.State != "open",
		Merged:    p.Merged || p.MergedAt != nil, // lists have the time only
		CreatedAt: p.CreatedAt.UTC(),
	}
}

// Pull implements host.Host.
func (h *Host) Pull(ctx context.Context, r host.Repo, number int64) (_ host.Pull, err error) {
	defer fault.Wrap(&err, "pull request %d of %s", number, r.FullName)
	var p pull
	if err := h.get(ctx, r, fmt.Sprintf("/pulls/%d", number), &p); err != nil {
		return host.Pull{}, err
	}
	return p.out(), nil
}

// OpenPulls implements host.Host.
func (h *Host) OpenPulls(ctx context.Context, r host.Repo) (open []host.Pull, complete bool, err error) {
	defer fault.Wrap(&err, "open pull requests of %s", r.FullName)
	path := "/pulls?state=open&sort=updated&direction=desc&per_page=100"
	complete, err = somePages(ctx, h, r, path, host.MaxPullPages, func(page []pull) {
		for _, p := range page {
			open = append(open, p.out())
		}
	})
	return open, complete, err
}

// OpenPull implements host.Host.
func (h *Host) OpenPull(ctx context.Context, r host.Repo, n host.NewPull) (_ host.Pull, err error) {
	defer fault.Wrap(&err, "pull request of %s in %s", n.Branch, r.FullName)
	owner, _ := r.Split()
	var all []pull
	if err := h.get(ctx, r, "/pulls?state=all&head="+url.QueryEscape(owner+":"+n.Branch), &all); err != nil {
		return host.Pull{}, err
	}
	for _, p := range all {
		if p.Head.Ref == n.Branch {
			return p.out(), nil
		}
	}
	var made pull
	in := map[string]any{"title": n.Title, "head": n.Branch, "base": n.Base, "body": text.EllipsisBytes(n.Body, maxSummary)}
	if err := h.write(ctx, r, http.MethodPost, "/pulls", in, &made); err != nil {
		return host.Pull{}, err
	}
	return made.out(), nil
}

// CommitFile implements host.Host. The branch is created last: until then nobody
// sees the commit.
func (h *Host) CommitFile(ctx context.Context, r host.Repo, c host.FileCommit) (sha string, err error) {
	defer fault.Wrap(&err, "commit to %s", r.FullName)
	there, err := h.Resolve(ctx, r, "refs/heads/"+c.Branch)
	if !fault.Is(err, fault.NotFound) {
		return there.SHA, err
	}
	if err := h.get(ctx, r, contents(c.Path, c.Base), &json.RawMessage{}); err != nil {
		return "", err
	}
	base, err := h.gitCommit(ctx, r, c.Base)
	if err != nil {
		return "", err
	}
	var tree, made object
	file := map[string]any{"path": c.Path, "mode": "100644", "type": "blob", "content": c.Content}
	if err := h.write(ctx, r, http.MethodPost, "/git/trees", map[string]any{"base_tree": base.Tree.SHA, "tree": []any{file}},
		&tree); err != nil {
		return "", err
	}
	in := map[string]any{"message": c.Message, "tree": tree.SHA, "parents": []string{c.Base}}
	if err := h.write(ctx, r, http.MethodPost, "/git/commits", in, &made); err != nil {
		return "", err
	}
	return made.SHA, h.write(ctx, r, http.MethodPost, "/git/refs",
		map[string]any{"ref": "refs/heads/" + c.Branch, "sha": made.SHA}, nil)
}

type gitCommit struct {
	Tree    object
	Parents []object
}

func (h *Host) gitCommit(ctx context.Context, r host.Repo, sha string) (found gitCommit, err error) {
	return found, h.get(ctx, r, "/git/commits/"+sha, &found)
}

func contents(path, commit string) string {
	return "/contents/" + escape(path) + "?ref=" + url.QueryEscape(commit)
}

// File implements host.Host.
func (h *Host) File(ctx context.Context, r host.Repo, commit, path string, limit int64) (content []byte, err error) {
	defer fault.Wrap(&err, "file %s of %s at %s", path, r.FullName, commit)
	var raw json.RawMessage
	if err := h.get(ctx, r, contents(path, commit), &raw); err != nil {
		return nil, err
	}
	var file struct {
		Type, Encoding, Content string
		Size                    int64
	}
	if err := json.Unmarshal(raw, &file); err != nil || file.Type != "file" { // a folder is a list
		return nil, host.ErrNoFile(path)
	}
	if file.Size > limit {
		return nil, host.ErrLargeFile(path, limit)
	}
	// The encoding of a file that is too large for this call is "none".
	content, err = base64.StdEncoding.DecodeString(file.Content)
	if err != nil || file.Encoding != "base64" {
		return nil, fault.New(fault.BadGateway, "the code host's file has the encoding %q", file.Encoding).Because(err)
	}
	if int64(len(content)) > limit {
		return nil, host.ErrLargeFile(path, limit)
	}
	return content, nil
}

// PullFiles implements host.Host.
func (h *Host) PullFiles(ctx context.Context, r host.Repo, number int64) (paths []string, complete bool, err error) {
	defer fault.Wrap(&err, "files of pull request %d of %s", number, r.FullName)
	type file struct {
		Filename string
		Previous string `json:"previous_filename"`
	}
	files := 0
	err = pages(ctx, h, r, fmt.Sprintf("/pulls/%d/files?per_page=100", number), func(page []file) {
		files += len(page)
		for _, f := range page {
			paths = append(paths, f.Filename)
			if f.Previous != "" {
				paths = append(paths, f.Previous)
			}
		}
	})
	return paths, files < maxPullFiles, err
}

// SetComment implements host.Host.
func (h *Host) SetComment(ctx context.Context, r host.Repo, c *host.Comment) (err error) {
	defer fault.Wrap(&err, "comment on pull request %d of %s", c.Pull, r.FullName)
	path := fmt.Sprintf("/issues/%d/comments", c.Pull)
	if c.ID == 0 {
		type comment struct {
			ID   int64
			User account
			Body string
		}
		err := pages(ctx, h, r, path+"?per_page=100", func(page []comment) {
			for _, one := range page {
				// A person may have written the marker, too, so it must be an app's.
				if c.ID == 0 && one.User.Type == "Bot" && strings.HasPrefix(one.Body, c.Marker) {
					c.ID = one.ID
				}
			}
		})
		if err != nil {
			return err
		}
	}
	in := map[string]any{"body": text.EllipsisBytes(c.Body, maxSummary)}
	if c.ID != 0 {
		return h.write(ctx, r, http.MethodPatch, fmt.Sprintf("/issues/comments/%d", c.ID), in, nil)
	}
	var made struct{ ID int64 }
	err = h.write(ctx, r, http.MethodPost, path, in, &made)
	c.ID = made.ID
	return err
}
