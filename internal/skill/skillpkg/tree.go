package skillpkg

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// A tree has the members of an archive by name, and makes sure that no two of
// them are the same file on any file system.
type tree struct{ root *node }

// A node is a folder, or a leaf: a regular file or a link.
type node struct {
	name   string
	parent *node
	// children are the members of a folder by folded name, so that names which
	// are one file on macOS or Windows meet here; nil in a leaf.
	children map[string]*node
	// listed reports that the archive lists the folder itself.
	listed bool
	// file describes a leaf. Its Path is set when the tree is listed.
	file File
}

func newTree() *tree { return &tree{root: newFolder("", nil)} }

// newFolder returns a folder that the archive has not listed itself.
func newFolder(name string, parent *node) *node {
	return &node{name: name, parent: parent, children: map[string]*node{}}
}

func (n *node) isFolder() bool { return n.children != nil }

// child returns the member of the folder with exactly this name, or nil. The exact
// name: a link that only matches on macOS would break elsewhere.
func (n *node) child(name string) *node {
	c := n.children[fold(name)]
	if c == nil || c.name != name {
		return nil
	}
	return c
}

// sorted returns the members of the folder by name.
func (n *node) sorted() []*node {
	members := make([]*node, 0, len(n.children))
	for _, c := range n.children {
		members = append(members, c)
	}
	slices.SortFunc(members, func(a, b *node) int { return cmp.Compare(a.name, b.name) })
	return members
}

// path returns the path of the node relative to its root.
func (n *node) path() string {
	if n.parent == nil {
		return ""
	}
	return path.Join(n.parent.path(), n.name)
}

// addFolder adds a folder that the archive lists.
func (t *tree) addFolder(p string) error {
	n, err := t.enter(p, p)
	if err != nil {
		return err
	}
	if n.listed {
		return refuse(CodePathDuplicate, p, "the folder is in the archive twice; pack it once")
	}
	n.listed = true
	return nil
}

// addFile adds a regular file or a link and returns its node.
func (t *tree) addFile(p string) (*node, error) {
	dir, name := path.Split(p)
	parent, err := t.enter(strings.TrimSuffix(dir, "/"), p)
	if err != nil {
		return nil, err
	}
	key := fold(name)
	if existing := parent.children[key]; existing != nil {
		if existing.name == name && existing.isFolder() {
			return nil, refuse(CodePathConflict, p, "a file and a folder have this name; rename one")
		}
		return nil, nameConflict(existing, name, p)
	}
	n := &node{name: name, parent: parent}
	parent.children[key] = n
	return n, nil
}

// enter finds or creates a folder. Errors name the member that needs it.
func (t *tree) enter(folder, member string) (*node, error) {
	n := t.root
	if folder == "" {
		return n, nil
	}
	for name := range strings.SplitSeq(folder, "/") {
		key := fold(name)
		next := n.children[key]
		switch {
		case next == nil:
			// Archives need not list the folders of their files.
			next = newFolder(name, n)
			n.children[key] = next
		case next.name != name:
			return nil, nameConflict(next, name, member)
		case !next.isFolder():
			return nil, refuse(CodePathConflict, member,
				"%s is a file or a link and a folder at once; rename one", quote(next.path()))
		}
		n = next
	}
	return n, nil
}

// find returns the node at a path, or nil.
func (t *tree) find(p string) *node {
	n := t.root
	for name := range strings.SplitSeq(p, "/") {
		if n = n.child(name); n == nil {
			return nil
		}
	}
	return n
}

// nameConflict is the error for a member whose name is equal to that of another
// one, on this or on other file systems.
func nameConflict(existing *node, name, member string) error {
	if existing.name == name {
		return refuse(CodePathDuplicate, member, "the name is in the archive twice; pack it once")
	}
	return refuse(CodePathCollision, member,
		"the name differs from %s only in case or accents' encoding; rename one", quote(existing.path()))
}

// list returns the leaves below the folder, sorted by path. Unlike expand it keeps
// links as they are.
func (n *node) list() []File {
	var files []File
	var walk func(n *node, at string)
	walk = func(n *node, at string) {
		if !n.isFolder() {
			f := n.file
			f.Path = at
			files = append(files, f)
			return
		}
		for _, c := range n.children {
			walk(c, path.Join(at, c.name))
		}
	}
	walk(n, "")
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return files
}

// folders returns the folders below n that the archive lists, by path.
func (n *node) folders() (all []string) {
	for _, c := range n.sorted() {
		if !c.isFolder() {
			continue
		}
		if c.listed {
			all = append(all, c.path())
		}
		all = append(all, c.folders()...)
	}
	return all
}
