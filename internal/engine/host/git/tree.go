package git

import (
	"context"
	"io"
	"path"
	"slices"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// Tree implements host.Host. Only objects below the path are read.
func (h *Host) Tree(ctx context.Context, r host.Repo, commit, folder string) (_ *skillpkg.Package, err error) {
	defer fault.Wrap(&err, "files of %s at %s", r.FullName, commit)
	repo, err := h.open(r)
	if err != nil {
		return nil, err
	}
	found, err := resolve(repo, commit)
	if err != nil {
		return nil, err
	}
	from, err := treeOf(repo, found.TreeHash)
	if err != nil {
		return nil, err
	}
	if folder != "." {
		if from, err = subtree(repo, from, folder); err != nil {
			return nil, err
		}
	}
	w := &walk{ctx: ctx, repo: repo, folder: folder, tree: host.NewTree()}
	if err := w.add(from, ""); err != nil {
		return nil, err
	}
	return w.tree.Package(ctx)
}

// File implements host.Host.
func (h *Host) File(_ context.Context, r host.Repo, commit, name string, limit int64) (_ []byte, err error) {
	defer fault.Wrap(&err, "file %s of %s at %s", name, r.FullName, commit)
	repo, err := h.open(r)
	if err != nil {
		return nil, err
	}
	found, err := resolve(repo, commit)
	if err != nil {
		return nil, err
	}
	from, err := treeOf(repo, found.TreeHash)
	if err != nil {
		return nil, err
	}
	if folder := path.Dir(name); folder != "." {
		if from, err = subtree(repo, from, folder); err != nil {
			return nil, err
		}
	}
	i := slices.IndexFunc(from.Entries, func(e object.TreeEntry) bool { return e.Name == path.Base(name) })
	if i < 0 || !from.Entries[i].Mode.IsFile() || from.Entries[i].Mode == filemode.Symlink {
		return nil, host.ErrNoFile(name)
	}
	size, err := repo.Storer.EncodedObjectSize(from.Entries[i].Hash)
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, host.ErrLargeFile(name, limit)
	}
	content, err := (&walk{repo: repo}).content(from.Entries[i].Hash)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(content, limit))
}

func treeOf(repo *gogit.Repository, hash plumbing.Hash) (*object.Tree, error) {
	if err := checkSize(repo, hash); err != nil {
		return nil, err
	}
	return repo.TreeObject(hash)
}

// subtree finds a folder below a tree.
func subtree(repo *gogit.Repository, from *object.Tree, folder string) (*object.Tree, error) {
	for name := range strings.SplitSeq(folder, "/") {
		i := slices.IndexFunc(from.Entries, func(e object.TreeEntry) bool { return e.Name == name })
		if i >= 0 && from.Entries[i].Mode == filemode.Submodule {
			return nil, host.RefuseSubmodule(folder)
		}
		if i < 0 || from.Entries[i].Mode != filemode.Dir {
			return nil, fault.New(fault.NotFound, "the repository has no folder %s", folder)
		}
		var err error
		if from, err = treeOf(repo, from.Entries[i].Hash); err != nil {
			return nil, err
		}
	}
	return from, nil
}

// A walk collects the files of a tree.
type walk struct {
	ctx    context.Context
	repo   *gogit.Repository
	folder string
	tree   *host.Tree
}

func (w *walk) add(from *object.Tree, prefix string) error {
	for _, e := range from.Entries {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.entry(e, path.Join(prefix, e.Name)); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(e object.TreeEntry, name string) error {
	switch e.Mode {
	case filemode.Dir:
		if err := w.tree.AddFolder(name); err != nil {
			return err
		}
		below, err := treeOf(w.repo, e.Hash)
		if err != nil {
			return err
		}
		return w.add(below, name)
	case filemode.Submodule:
		return host.RefuseSubmodule(path.Join(w.folder, name))
	case filemode.Symlink:
		target, err := w.target(e.Hash)
		if err != nil {
			return err
		}
		return w.tree.AddLink(name, target)
	case filemode.Regular, filemode.Deprecated, filemode.Executable:
		size, err := w.repo.Storer.EncodedObjectSize(e.Hash)
		if err != nil {
			return err
		}
		open := func() (io.ReadCloser, error) { return w.content(e.Hash) }
		return w.tree.AddFile(name, e.Mode == filemode.Executable, size, open)
	}
	return fault.New(fault.Malformed, "%s is neither a file nor a folder nor a link", name)
}

func (w *walk) content(hash plumbing.Hash) (io.ReadCloser, error) {
	blob, err := w.repo.BlobObject(hash)
	if err != nil {
		return nil, err
	}
	return blob.Reader()
}

// target reads the target of a symbolic link.
func (w *walk) target(hash plumbing.Hash) (string, error) {
	const longest = 4096 // PATH_MAX
	content, err := w.content(hash)
	if err != nil {
		return "", err
	}
	defer func() { _ = content.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(content, longest))
	return string(raw), err
}
