package git

import (
	"context"
	"io"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/gittree"
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
	from, err := repo.Tree(found.Tree)
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
	from, err := repo.Tree(found.Tree)
	if err != nil {
		return nil, err
	}
	if folder := path.Dir(name); folder != "." {
		if from, err = subtree(repo, from, folder); err != nil {
			return nil, err
		}
	}
	file, ok := from.Find(path.Base(name))
	if !ok || file.Kind != gittree.IsFile && file.Kind != gittree.IsExecutable {
		return nil, host.ErrNoFile(name)
	}
	size, err := repo.EncodedObjectSize(plumbing.Hash(file.Hash))
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, host.ErrLargeFile(name, limit)
	}
	content, err := repo.Blob(file.Hash)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(content, limit))
}

// subtree finds a folder below a tree.
func subtree(repo *gittree.Repository, from gittree.StoredTree, folder string) (gittree.StoredTree, error) {
	for name := range strings.SplitSeq(folder, "/") {
		below, ok := from.Find(name)
		if ok && below.Kind == gittree.IsSubmodule {
			return from, host.RefuseSubmodule(folder)
		}
		if !ok || below.Kind != gittree.IsFolder {
			return from, fault.New(fault.NotFound, "the repository has no folder %s", folder)
		}
		var err error
		if from, err = repo.Tree(below.Hash); err != nil {
			return from, err
		}
	}
	return from, nil
}

// A walk collects the files of a tree.
type walk struct {
	ctx    context.Context
	repo   *gittree.Repository
	folder string
	tree   *host.Tree
}

func (w *walk) add(from gittree.StoredTree, prefix string) error {
	for _, e := range from.Members {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.entry(e, path.Join(prefix, e.Name)); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(e gittree.Member, name string) error {
	switch e.Kind {
	case gittree.IsFolder:
		if err := w.tree.AddFolder(name); err != nil {
			return err
		}
		below, err := w.repo.Tree(e.Hash)
		if err != nil {
			return err
		}
		return w.add(below, name)
	case gittree.IsLink:
		target, err := w.target(e.Hash)
		if err != nil {
			return err
		}
		return w.tree.AddLink(name, target)
	case gittree.IsFile, gittree.IsExecutable:
		size, err := w.repo.EncodedObjectSize(plumbing.Hash(e.Hash))
		if err != nil {
			return err
		}
		open := func() (io.ReadCloser, error) { return w.repo.Blob(e.Hash) }
		return w.tree.AddFile(name, e.Kind == gittree.IsExecutable, size, open)
	case gittree.IsSubmodule:
	}
	return host.RefuseSubmodule(path.Join(w.folder, name))
}

// target reads the target of a symbolic link.
func (w *walk) target(hash gittree.Hash) (string, error) {
	const longest = 4096 // PATH_MAX
	content, err := w.repo.Blob(hash)
	if err != nil {
		return "", err
	}
	defer func() { _ = content.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(content, longest))
	return string(raw), err
}
