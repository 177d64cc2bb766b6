// Package git is the embedded code host: bare repositories OWNER/NAME.git below
// a folder, read in process with go-git.
package git

import (
	"context"
	"errors"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/gittree"
)

// Options configure a Host.
type Options struct {
	// Dir is the folder of the repositories, created if it is missing.
	Dir string
	// Program is the path of our own binary, which the hooks run.
	Program string
	// URL is the address of this service, Secret signs the deliveries of the
	// hooks. With an empty URL no hook configuration is written.
	URL, Secret string
}

// Host is the host.Host of a folder.
type Host struct {
	dir     string
	program string
}

// New creates the folder and writes the configuration of its hooks.
func New(o Options) (*Host, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	h := &Host{dir: dir, program: o.Program}
	if o.URL == "" {
		return h, nil
	}
	return h, writeHookConfig(dir, HookConfig{URL: o.URL, Secret: o.Secret})
}

// Init creates an empty bare repository below the folder and returns its path.
// If it exists already, that is a Conflict.
func Init(dir, fullName string) (string, error) {
	if err := host.CheckFullName(fullName); err != nil {
		return "", err
	}
	owner, name, _ := strings.Cut(fullName, "/")
	if err := os.MkdirAll(filepath.Join(dir, owner), 0o700); err != nil {
		return "", err
	}
	path, err := filepath.Abs(filepath.Join(dir, owner, name+suffix))
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(path, 0o700); errors.Is(err, fs.ErrExist) {
		return path, fault.New(fault.Conflict, "The repository %s exists already", fullName)
	} else if err != nil {
		return "", err
	}
	return path, gittree.At(bound(path)).InitBare()
}

const suffix = ".git"

// Provider implements host.Host.
func (h *Host) Provider() host.Provider { return host.Git }

// CheckAccount implements host.Host: a folder has no accounts.
func (h *Host) CheckAccount(context.Context, host.Installation) error { return nil }

// Repositories implements host.Host.
func (h *Host) Repositories(ctx context.Context, at host.Installation) (_ []host.Repository, err error) {
	defer fault.Wrap(&err, "repositories of %s", at.Account)
	if host.CheckFullName(at.Account+"/x") != nil {
		return nil, nil
	}
	root, err := os.OpenRoot(h.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // it was only read
	entries, err := fs.ReadDir(root.FS(), at.Account)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := []host.Repository{}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok {
			continue
		}
		r, err := h.repository(host.Repo{Installation: at, FullName: at.Account + "/" + name})
		if fault.Is(err, fault.NotFound) {
			continue // not a repository, or a link
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Repository implements host.Host.
func (h *Host) Repository(_ context.Context, r host.Repo) (_ host.Repository, err error) {
	defer fault.Wrap(&err, "repository %s", r.FullName)
	return h.repository(r)
}

func (h *Host) repository(r host.Repo) (host.Repository, error) {
	repo, err := h.open(r)
	if err != nil {
		return host.Repository{}, err
	}
	// A folder has no ids, so the id is a hash of the name. It has 53 bits, which
	// JSON numbers represent exactly.
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(r.FullName)) // never fails
	owner, name := r.Split()
	out := host.Repository{
		ID: int64(hash.Sum64() >> 11), FullName: r.FullName, Owner: owner, Name: name, Visibility: "private",
	}
	head, err := repo.Reference(plumbing.HEAD)
	if err != nil {
		return out, err
	}
	out.DefaultBranch = head.Target().Short()
	if commit, err := peel(repo, head.Target()); err == nil {
		out.PushedAt = &commit.Committed
	}
	return out, nil
}

// open opens a repository of the installation's account.
func (h *Host) open(r host.Repo) (*gittree.Repository, error) {
	path, err := h.path(r)
	if err != nil {
		return nil, err
	}
	repo, err := gittree.Open(bound(path))
	if errors.Is(err, gittree.ErrNotRepository) {
		return nil, notFound(r)
	}
	return repo, err
}

func (h *Host) path(r host.Repo) (string, error) {
	owner, name := r.Split()
	if host.CheckFullName(r.FullName) != nil || owner != r.Account {
		return "", notFound(r)
	}
	root, err := os.OpenRoot(h.dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }() // it was only read
	inside := filepath.Join(owner, name+suffix)
	// Symbolic links are not followed, neither out of the folder nor to the
	// repositories of another owner.
	for _, dir := range []string{owner, inside} {
		if info, err := root.Lstat(dir); err != nil || !info.IsDir() {
			return "", notFound(r)
		}
	}
	if _, err := root.Stat(filepath.Join(inside, "HEAD")); err != nil {
		return "", notFound(r)
	}
	return filepath.Join(h.dir, inside), nil
}

func notFound(r host.Repo) error {
	return fault.New(fault.NotFound, "The repository %s was not found", r.FullName)
}

// bound keeps symbolic links from leading out of the folder.
func bound(path string) billy.Filesystem { return osfs.New(path, osfs.WithBoundOS()) }

// Resolve implements host.Host.
func (h *Host) Resolve(_ context.Context, r host.Repo, ref string) (_ host.Commit, err error) {
	defer fault.Wrap(&err, "resolve %s in %s", ref, r.FullName)
	repo, err := h.open(r)
	if err != nil {
		return host.Commit{}, err
	}
	commit, err := resolve(repo, ref)
	if err != nil {
		return host.Commit{}, err
	}
	return host.Commit{SHA: commit.Hash.String(), Message: commit.Message}, nil
}

func resolve(repo *gittree.Repository, ref string) (gittree.Revision, error) {
	if host.IsSHA(ref) {
		return repo.Peel(gittree.Hash(plumbing.NewHash(ref)))
	}
	names := []string{ref}
	if !strings.HasPrefix(ref, "refs/") {
		names = []string{"refs/heads/" + ref, "refs/tags/" + ref}
	}
	for _, name := range names {
		commit, err := peel(repo, plumbing.ReferenceName(name))
		if !errors.Is(err, plumbing.ErrReferenceNotFound) {
			return commit, err
		}
	}
	return gittree.Revision{}, fault.New(fault.NotFound, "The repository has no branch, tag or commit %s", ref)
}

// peel returns the commit of a ref.
func peel(repo *gittree.Repository, name plumbing.ReferenceName) (gittree.Revision, error) {
	hash, err := repo.Ref(name)
	if err != nil {
		return gittree.Revision{}, err
	}
	return repo.Peel(hash)
}

// Refs implements host.Host.
func (h *Host) Refs(ctx context.Context, r host.Repo) (_ host.Refs, err error) {
	defer fault.Wrap(&err, "refs of %s", r.FullName)
	refs := host.Refs{Heads: map[string]string{}, Tags: map[string]string{}}
	repo, err := h.open(r)
	if err != nil {
		return refs, err
	}
	all, err := repo.IterReferences()
	if err != nil {
		return refs, err
	}
	defer all.Close()
	return refs, all.ForEach(func(ref *plumbing.Reference) error {
		into := refs.Heads
		if ref.Name().IsTag() {
			into = refs.Tags
		} else if !ref.Name().IsBranch() {
			return nil
		}
		commit, err := repo.Peel(gittree.Hash(ref.Hash()))
		if fault.Is(err, fault.NotFound) {
			return nil // a tag may point to any object
		}
		if err != nil {
			return err
		}
		into[ref.Name().Short()] = commit.Hash.String()
		return ctx.Err()
	})
}

// SetStatus implements host.Host: a folder has no statuses.
func (h *Host) SetStatus(context.Context, host.Repo, string, host.Status) error {
	return host.ErrUnsupported
}

// SetCheck implements host.Host: a folder has no check-runs.
func (h *Host) SetCheck(context.Context, host.Repo, *host.Check) error { return host.ErrUnsupported }

// SetIssue implements host.Host: a bare repository has no issues.
func (h *Host) SetIssue(context.Context, host.Repo, *host.Issue) error { return host.ErrUnsupported }

// Pull implements host.Host: a bare repository has no pull requests.
func (h *Host) Pull(context.Context, host.Repo, int64) (host.Pull, error) {
	return host.Pull{}, host.ErrUnsupported
}

// OpenPulls implements host.Host.
func (h *Host) OpenPulls(context.Context, host.Repo) ([]host.Pull, bool, error) {
	return nil, false, host.ErrUnsupported
}

// PullFiles implements host.Host.
func (h *Host) PullFiles(context.Context, host.Repo, int64) ([]string, bool, error) {
	return nil, false, host.ErrUnsupported
}

// SetComment implements host.Host.
func (h *Host) SetComment(context.Context, host.Repo, *host.Comment) error {
	return host.ErrUnsupported
}

// OpenPull implements host.Host.
func (h *Host) OpenPull(context.Context, host.Repo, host.NewPull) (host.Pull, error) {
	return host.Pull{}, host.ErrUnsupported
}

// MergedPull implements host.Host.
func (h *Host) MergedPull(context.Context, host.Repo, string) (host.MergedPull, error) {
	return host.MergedPull{}, host.ErrUnsupported
}

// Reviews implements host.Host.
func (h *Host) Reviews(context.Context, host.Repo, int64) ([]host.Review, error) {
	return nil, host.ErrUnsupported
}

// Authors implements host.Host.
func (h *Host) Authors(context.Context, host.Repo, int64) ([]int64, error) {
	return nil, host.ErrUnsupported
}

// Dir is the folder of the repositories: the setting, a path or a file URL, or
// "repos" in the data folder.
func Dir(data, setting string) string {
	if setting == "" {
		return filepath.Join(data, "repos")
	}
	return strings.TrimPrefix(setting, "file://")
}
