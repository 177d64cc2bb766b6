package skillpkg

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// maxHops is how many links are followed to resolve one; it is the usual limit
// of operating systems.
const maxHops = 40

// A placed file is a regular file with its path once links are replaced by
// copies.
type placed struct {
	path string
	node *node
}

// checkTarget validates the target of a link, independent of the tree.
func checkTarget(link, target string, limits Limits) error {
	switch {
	case target == "":
		return refuse(CodeSymlink, link, "the link points nowhere; remove it")
	case len(target) > limits.PathLength:
		return refuse(CodeSymlink, link,
			"the link's target is longer than %d bytes; use shorter names", limits.PathLength)
	case checkCharacters(target) != nil:
		return refuse(CodeSymlink, link, "the link's target holds characters that are not allowed; rename it")
	// Targets that leave the skill by ".." are found later, by resolve, which knows
	// the tree.
	case strings.HasPrefix(target, "/") || len(target) >= 2 && target[1] == ':' && isLetter(target[0]):
		return refuse(CodeSymlink, link,
			"the link is absolute; point it at a file of the skill, or put the file in its place")
	}
	return nil
}

// resolve returns the file or folder that a link points to, resolved as a file
// system does, with the topmost parent as the root.
func resolve(link *node) (*node, error) {
	hops := 0
	var follow func(from *node, target string) (*node, error)
	// hops counts all links of the resolution, nested ones too, so cycles end.
	follow = func(from *node, target string) (*node, error) {
		if hops++; hops > maxHops {
			return nil, refuse(CodeSymlink, link.path(),
				"the link leads through too many links or back to itself; point it at a file")
		}
		at := from
		for name := range strings.SplitSeq(target, "/") {
			next, err := followSegment(link, at, name)
			if err != nil {
				return nil, err
			}
			if next.file.Kind == Link {
				if next, err = follow(next.parent, next.file.Target); err != nil {
					return nil, err
				}
			}
			at = next
		}
		return at, nil
	}
	return follow(link.parent, link.file.Target)
}

// followSegment resolves one segment of a link's target.
func followSegment(link, at *node, name string) (*node, error) {
	if !at.isFolder() {
		return nil, refuse(CodeSymlink, link.path(), "the link points at nothing in the archive; remove it")
	}
	switch name {
	case "", ".":
		return at, nil
	// A ".." goes to the parent of the resolved folder, not of the link, as in
	// POSIX.
	case "..":
		if at.parent == nil {
			return nil, refuse(CodeSymlink, link.path(), "the link leaves the skill's folder; put the file in its place")
		}
		return at.parent, nil
	}
	next := at.child(name)
	if next == nil {
		return nil, refuse(CodeSymlink, link.path(), "the link points at nothing in the archive; remove it")
	}
	return next, nil
}

// expand lists the regular files below root, sorted by path, with links replaced
// by their targets. The limits apply to the result, since links could make a
// small archive large.
func expand(root *node, limits Limits) ([]placed, error) {
	e := &expansion{limits: limits}
	if err := e.walk(root, ""); err != nil {
		return nil, err
	}
	slices.SortFunc(e.files, func(a, b placed) int { return cmp.Compare(a.path, b.path) })
	return e.files, nil
}

// An expansion is one call of expand.
type expansion struct {
	limits Limits
	files  []placed
	size   int64
	steps  int
	// open are the folders on the current path of the walk, outermost first.
	open []*node
}

// walk visits the members of a folder, whose path in the result is at.
func (e *expansion) walk(folder *node, at string) error {
	e.open = append(e.open, folder)
	defer func() { e.open = e.open[:len(e.open)-1] }()
	for _, n := range folder.sorted() {
		if err := e.visit(n, path.Join(at, n.name)); err != nil {
			return err
		}
	}
	return nil
}

func (e *expansion) visit(n *node, at string) error {
	// Folders without files cost time, too, when links multiply them.
	if e.steps++; e.steps > e.limits.members()*e.limits.Depth {
		return refuse(CodeSymlink, at, "the links of the archive multiply its folders; remove some")
	}
	if n.file.Kind != Link {
		return e.place(n, at)
	}
	target, err := resolve(n)
	if err != nil {
		return err
	}
	// A link to a folder that contains it would never end; hops do not catch it,
	// since each resolution is short.
	if slices.Contains(e.open, target) {
		return refuse(CodeSymlink, n.path(), "the link points at a folder it is in; remove it")
	}
	if err := checkSegments(at, e.limits); err != nil {
		return err
	}
	return e.place(target, at)
}

// place puts a folder's members, or a regular file, under a path.
func (e *expansion) place(n *node, at string) error {
	if n.isFolder() {
		return e.walk(n, at)
	}
	if len(at) > e.limits.PathLength {
		return refuse(CodePathTooLong, at,
			"the path is longer than %d bytes once links are followed; use shorter names", e.limits.PathLength)
	}
	if err := checkSegments(at, e.limits); err != nil {
		return err
	}
	e.files = append(e.files, placed{path: at, node: n})
	e.size += n.file.Size
	if err := e.limits.checkFiles(len(e.files)); err != nil {
		return err
	}
	return e.limits.checkUnpacked(e.size)
}
