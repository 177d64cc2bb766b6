package host

import (
	"context"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// A Tree is the files of a commit below a path, which providers fill. It is
// packed as the command line packs a folder, with the same limits, and does not
// read the content of files that are left out.
type Tree struct {
	nodes map[string]*node
	added int
}

// Limits of a tree. They count everything that a provider adds, including
// folders and files that are left out: a few git trees that refer to each other
// repeatedly expand to more folders than can be walked (a "git bomb").
const (
	maxNodes = 20_000
	maxDepth = 64
)

// NewTree returns an empty tree.
func NewTree() *Tree {
	return &Tree{nodes: map[string]*node{".": {name: ".", mode: fs.ModeDir | 0o755}}}
}

type node struct {
	name     string
	mode     fs.FileMode
	size     int64
	target   string // of a link
	open     func() (io.ReadCloser, error)
	children []string // paths
}

// AddFile adds a file; open is called when its content is read.
func (t *Tree) AddFile(name string, executable bool, size int64, open func() (io.ReadCloser, error)) error {
	mode := fs.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	return t.add(name, &node{mode: mode, size: size, open: open})
}

// AddLink adds a symbolic link.
func (t *Tree) AddLink(name, target string) error {
	return t.add(name, &node{mode: fs.ModeSymlink | 0o777, target: target})
}

// AddFolder counts a folder. One that stays empty is not packed.
func (t *Tree) AddFolder(name string) error { return t.count(name) }

// Empty reports whether nothing was added, since there is no such folder.
func (t *Tree) Empty() bool { return len(t.nodes) == 1 }

// count enforces the limits.
func (t *Tree) count(name string) error {
	if t.added++; t.added > maxNodes {
		return fault.New(fault.TooLarge,
			"the folder holds more than %d files and folders; choose the folder of the skill", maxNodes)
	}
	if strings.Count(name, "/") >= maxDepth {
		return fault.New(fault.TooLarge, "the folders of the repository are nested more than %d deep", maxDepth)
	}
	return nil
}

func (t *Tree) add(name string, n *node) error {
	if err := t.count(name); err != nil {
		return err
	}
	if !fs.ValidPath(name) || name == "." {
		return fault.New(fault.Malformed, "the repository holds a file with the name %q, which is not allowed", name)
	}
	if t.nodes[name] != nil {
		return fault.New(fault.Malformed, "the repository holds %q twice", name)
	}
	parent, err := t.folder(path.Dir(name))
	if err != nil {
		return err
	}
	n.name = path.Base(name)
	t.nodes[name] = n
	parent.children = append(parent.children, name)
	return nil
}

// folder finds or creates a folder.
func (t *Tree) folder(name string) (*node, error) {
	if n := t.nodes[name]; n != nil {
		if !n.mode.IsDir() {
			return nil, fault.New(fault.Malformed, "the repository holds %q as a file and as a folder", name)
		}
		return n, nil
	}
	parent, err := t.folder(path.Dir(name))
	if err != nil {
		return nil, err
	}
	n := &node{name: path.Base(name), mode: fs.ModeDir | 0o755}
	t.nodes[name] = n
	parent.children = append(parent.children, name)
	return n, nil
}

// Package packs the tree. A skill in a subfolder is refused: it must be at the
// path itself.
func (t *Tree) Package(ctx context.Context) (_ *skillpkg.Package, err error) {
	limits := skillpkg.DefaultLimits()
	options := skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: limits}
	archive, err := spool.Fill(-1, func(w io.Writer) error {
		_, err := skillpkg.Pack(ctx, treeFS{t}, w, options)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	pkg, err := skillpkg.Open(ctx, archive, archive.Size(), limits)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = pkg.Close() // the first error is the cause
		}
	}()
	if pkg.Folder != "" {
		return nil, fault.New(fault.Malformed,
			"no SKILL.md at the path of the skill, only in the folder %q below it", pkg.Folder)
	}
	return pkg, pkg.Walk(ctx, refuseLFSPointer)
}

// lfsPointer is the beginning of every Git LFS pointer file.
const lfsPointer = "version https://git-lfs.github.com/spec/"

// refuseLFSPointer refuses a file whose content is in Git LFS: the skill would
// be broken.
func refuseLFSPointer(f skillpkg.File, content io.Reader) error {
	const longest = 1024
	if f.Size > longest {
		return nil
	}
	begin := make([]byte, len(lfsPointer))
	n, _ := io.ReadFull(content, begin) // a file that is too short is not a pointer
	if string(begin[:n]) != lfsPointer {
		return nil
	}
	return fault.New(fault.Malformed,
		"%s is a Git LFS pointer, its content is not in the repository; commit the file itself, or name it in .skillignore",
		f.Path)
}

// RefuseSubmodule is the error about a submodule below the path of a skill.
func RefuseSubmodule(name string) error {
	return fault.New(fault.Malformed,
		"%s is a submodule, its files are not in this repository; put the files in its place", name)
}

// treeFS is a Tree as an fs.FS.
type treeFS struct{ t *Tree }

// Open implements fs.FS.
func (f treeFS) Open(name string) (fs.File, error) {
	n, err := f.find("open", name)
	if err != nil {
		return nil, err
	}
	if n.mode.IsRegular() {
		content, err := n.open()
		return &openFile{n, content}, err
	}
	if n.mode.IsDir() {
		return &openFile{n, nil}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
}

// ReadDir implements fs.ReadDirFS.
func (f treeFS) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := f.find("readdir", name)
	if err != nil {
		return nil, err
	}
	slices.Sort(n.children)
	entries := make([]fs.DirEntry, len(n.children))
	for i, child := range n.children {
		entries[i] = fs.FileInfoToDirEntry(info{f.t.nodes[child]})
	}
	return entries, nil
}

// ReadLink implements fs.ReadLinkFS.
func (f treeFS) ReadLink(name string) (string, error) {
	n, err := f.find("readlink", name)
	if err != nil {
		return "", err
	}
	return n.target, nil
}

// Lstat implements fs.ReadLinkFS.
func (f treeFS) Lstat(name string) (fs.FileInfo, error) {
	n, err := f.find("lstat", name)
	return info{n}, err
}

func (f treeFS) find(op, name string) (*node, error) {
	if n := f.t.nodes[name]; n != nil {
		return n, nil
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

type openFile struct {
	node    *node
	content io.ReadCloser
}

func (f *openFile) Stat() (fs.FileInfo, error) { return info{f.node}, nil }

func (f *openFile) Read(p []byte) (int, error) {
	if f.content == nil {
		return 0, fs.ErrInvalid
	}
	return f.content.Read(p)
}

func (f *openFile) Close() error {
	if f.content == nil {
		return nil
	}
	return f.content.Close()
}

type info struct{ *node }

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

// below returns a member's name relative to the folder, and whether it is in it.
func below(folder, name string) (string, bool) {
	if folder == "." {
		return name, true
	}
	return strings.CutPrefix(name, folder+"/")
}
