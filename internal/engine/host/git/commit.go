package git

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/gittree"
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
	blob, err := repo.Write(gittree.Blob, []byte(c.Content))
	if err != nil {
		return "", err
	}
	tree, err := replaceBlob(repo, base.Tree, strings.Split(c.Path, "/"), blob)
	if err != nil {
		return "", err
	}
	by := fmt.Sprintf("Whetstone <whetstone@localhost> %d +0000", time.Now().Unix())
	commit, err := repo.Write(gittree.Commit, fmt.Appendf(nil, "tree %s\nparent %s\nauthor %s\ncommitter %s\n\n%s",
		tree, base.Hash, by, by, c.Message))
	if err != nil {
		return "", err
	}
	return commit.String(), repo.SetReference(plumbing.NewHashReference(branch, plumbing.Hash(commit)))
}

// replaceBlob writes a tree in which the file at a path has another content, and
// returns its hash.
func replaceBlob(repo *gittree.Repository, hash gittree.Hash, path []string, blob gittree.Hash) (gittree.Hash, error) {
	tree, err := repo.Tree(hash)
	if err != nil {
		return gittree.Hash{}, err
	}
	found, ok := tree.Find(path[0])
	switch {
	case ok && len(path) > 1 && found.Kind == gittree.IsFolder:
		if blob, err = replaceBlob(repo, found.Hash, path[1:], blob); err != nil {
			return gittree.Hash{}, err
		}
	case ok && len(path) == 1 && (found.Kind == gittree.IsFile || found.Kind == gittree.IsExecutable):
	default:
		return gittree.Hash{}, fault.New(fault.NotFound, "the repository has no file %s", strings.Join(path, "/"))
	}
	return repo.Write(gittree.Tree, tree.With(found, blob))
}
