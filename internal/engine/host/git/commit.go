package git

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// CommitFile implements host.Host. The branch is created last, so that it never
// leads to objects that are missing.
func (h *Host) CommitFile(_ context.Context, r host.Repo, c host.FileCommit) (_ string, err error) {
	defer fault.Wrap(&err, "commit to %s", r.FullName)
	repo, err := h.open(r)
	if err != nil {
		return "", err
	}
	branch := plumbing.NewBranchReferenceName(c.Branch)
	if there, err := peel(repo, branch); err == nil {
		return there.Hash.String(), nil
	} else if !errors.Is(err, plumbing.ErrReferenceNotFound) {
		return "", err
	}
	base, err := resolve(repo, c.Base)
	if err != nil {
		return "", err
	}
	blob, err := writeBlob(repo, c.Content)
	if err != nil {
		return "", err
	}
	tree, err := replaceBlob(repo, base.TreeHash, strings.Split(c.Path, "/"), blob)
	if err != nil {
		return "", err
	}
	by := object.Signature{Name: "Whetstone", Email: "whetstone@localhost", When: time.Now().UTC()}
	commit, err := writeObject(repo, &object.Commit{
		Author: by, Committer: by, Message: c.Message, TreeHash: tree, ParentHashes: []plumbing.Hash{base.Hash},
	})
	if err != nil {
		return "", err
	}
	return commit.String(), repo.Storer.SetReference(plumbing.NewHashReference(branch, commit))
}

// replaceBlob writes a tree in which the file at a path has another content, and
// returns its hash.
func replaceBlob(repo *gogit.Repository, hash plumbing.Hash, path []string, blob plumbing.Hash) (plumbing.Hash, error) {
	tree, err := treeOf(repo, hash)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	entries := slices.Clone(tree.Entries)
	i := slices.IndexFunc(entries, func(e object.TreeEntry) bool { return e.Name == path[0] })
	missing := fault.New(fault.NotFound, "the repository has no file %s", strings.Join(path, "/"))
	switch {
	case i < 0:
		return plumbing.ZeroHash, missing
	case len(path) > 1 && entries[i].Mode == filemode.Dir:
		if entries[i].Hash, err = replaceBlob(repo, entries[i].Hash, path[1:], blob); err != nil {
			return plumbing.ZeroHash, err
		}
	case len(path) == 1 && entries[i].Mode.IsFile() && entries[i].Mode != filemode.Symlink:
		entries[i].Hash = blob
	default:
		return plumbing.ZeroHash, missing
	}
	return writeObject(repo, &object.Tree{Entries: entries})
}

func writeBlob(repo *gogit.Repository, content string) (plumbing.Hash, error) {
	o := repo.Storer.NewEncodedObject()
	o.SetType(plumbing.BlobObject)
	w, err := o.Writer()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	_, err = io.WriteString(w, content)
	if err := errors.Join(err, w.Close()); err != nil {
		return plumbing.ZeroHash, err
	}
	return repo.Storer.SetEncodedObject(o)
}

// writeObject stores a tree or a commit.
func writeObject(repo *gogit.Repository, o interface {
	Encode(plumbing.EncodedObject) error
},
) (plumbing.Hash, error) {
	encoded := repo.Storer.NewEncodedObject()
	if err := o.Encode(encoded); err != nil {
		return plumbing.ZeroHash, err
	}
	return repo.Storer.SetEncodedObject(encoded)
}
