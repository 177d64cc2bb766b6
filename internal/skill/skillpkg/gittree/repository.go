package gittree

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// A Repository is the object store and the refs of a repository on disk. It is built on
// go-git's storage alone: its type Repository links the transports, SSH and OpenPGP in,
// which nothing needs here (2 MB of the binary).
type Repository struct{ *filesystem.Storage }

// ErrNotRepository is the error of Open for a folder that isn't one.
var ErrNotRepository = errors.New("not a git repository")

// largeObject is the size from which content is streamed, not read at once.
const largeObject = 1 << 20

// At returns the repository whose .git folder is given, which Init may have to make.
func At(dir billy.Filesystem) *Repository {
	return &Repository{filesystem.NewStorageWithOptions(dir, cache.NewObjectLRUDefault(),
		filesystem.Options{LargeObjectThreshold: largeObject})}
}

// Open returns an existing repository. One with an extension is refused, since its objects
// or refs may be stored in another way.
func Open(dir billy.Filesystem) (*Repository, error) {
	r := At(dir)
	if _, err := r.Reference(plumbing.HEAD); errors.Is(err, plumbing.ErrReferenceNotFound) {
		return nil, ErrNotRepository
	} else if err != nil {
		return nil, err
	}
	settings, err := r.Config()
	if err != nil {
		return nil, err
	}
	if settings.Raw.HasSection("extensions") {
		for _, option := range settings.Raw.Section("extensions").Options {
			if !option.IsKey("noop") {
				return nil, fmt.Errorf("the repository has the extension %q", option.Key)
			}
		}
	}
	return r, nil
}

// InitBare writes the files of an empty bare repository with a branch main.
func (r *Repository) InitBare() error {
	if err := r.Init(); err != nil {
		return err
	}
	if err := r.SetReference(plumbing.NewSymbolicReference(plumbing.HEAD, plumbing.Main)); err != nil {
		return err
	}
	settings, err := r.Config()
	if err != nil {
		return err
	}
	settings.Core.IsBare = true
	return r.SetConfig(settings)
}

// Ref returns what a ref points to. Symbolic refs are followed. A missing one is
// plumbing.ErrReferenceNotFound.
func (r *Repository) Ref(name plumbing.ReferenceName) (Hash, error) {
	ref, err := storer.ResolveReference(r, name)
	if err != nil {
		return Hash{}, err
	}
	return Hash(ref.Hash()), nil
}

// maxObject is the size limit of objects that are read into memory: commits, tags and
// trees. A tree with as many entries as a skill may have files is smaller.
const maxObject = 8 << 20

// read returns the content of a commit, tag or tree. One that is missing, of another kind or
// larger than any of a skill is fault.NotFound: a few kilobytes of a pack can expand to a
// huge object.
func (r *Repository) read(kind plumbing.ObjectType, hash Hash) ([]byte, error) {
	size, err := r.EncodedObjectSize(plumbing.Hash(hash))
	if err == nil && size > maxObject {
		err = plumbing.ErrObjectNotFound
	}
	var content io.ReadCloser
	if err == nil {
		content, err = r.content(kind, hash)
	}
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return nil, fault.New(fault.NotFound, "The repository has no %s %s of at most %d MiB", kind, hash, maxObject>>20)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(content, maxObject))
}

func (r *Repository) content(kind plumbing.ObjectType, hash Hash) (io.ReadCloser, error) {
	object, err := r.EncodedObject(kind, plumbing.Hash(hash))
	if err != nil {
		return nil, err
	}
	return object.Reader()
}

// Blob streams the content of a file.
func (r *Repository) Blob(hash Hash) (io.ReadCloser, error) {
	return r.content(plumbing.BlobObject, hash)
}

// Commit reads a commit.
func (r *Repository) Commit(hash Hash) (Revision, error) {
	content, err := r.read(plumbing.CommitObject, hash)
	if err != nil {
		return Revision{}, err
	}
	revision, err := parseCommit(content)
	revision.Hash = hash
	return revision, err
}

// Peel reads the commit that a commit or an annotated tag leads to. Tags may point to other
// tags.
func (r *Repository) Peel(hash Hash) (Revision, error) {
	for range 10 {
		content, err := r.read(plumbing.TagObject, hash)
		if fault.Is(err, fault.NotFound) {
			break
		}
		if err != nil {
			return Revision{}, err
		}
		if hash, err = tagTarget(content); err != nil {
			return Revision{}, err
		}
	}
	return r.Commit(hash)
}

// Tree reads a folder.
func (r *Repository) Tree(hash Hash) (t StoredTree, err error) {
	if t.content, err = r.read(plumbing.TreeObject, hash); err != nil {
		return t, err
	}
	t.Members, err = parseTree(t.content)
	return t, err
}

// Write stores an object.
func (r *Repository) Write(kind Kind, content []byte) (Hash, error) {
	object := &plumbing.MemoryObject{}
	object.SetType(plumbing.ObjectType(kind))
	if _, err := object.Write(content); err != nil {
		return Hash{}, err
	}
	hash, err := r.SetEncodedObject(object)
	return Hash(hash), err
}
