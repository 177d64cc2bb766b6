// Package gittree names the files of a package as git does: a blob for each file and
// a tree for each folder. It also reads the repositories that hold them. It owns no tables.
package gittree

import (
	"cmp"
	"crypto/sha1" // git's own name of an object; nothing is trusted because of it
	"encoding/hex"
	"hash"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/spool"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// A Kind is the type of an object, as packs number it.
type Kind byte

// The kinds.
const (
	Commit Kind = 1
	Tree   Kind = 2
	Blob   Kind = 3
)

func (k Kind) String() string { return [...]string{Commit: "commit", Tree: "tree", Blob: "blob"}[k] }

// A Hash is the name of an object.
type Hash [sha1.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads 40 hex digits.
func ParseHash(text string) (h Hash, ok bool) {
	raw, err := hex.DecodeString(text)
	return h, err == nil && copy(h[:], raw) == len(h) && len(raw) == len(h)
}

func newHash(kind Kind, size int64) hash.Hash {
	h := sha1.New()
	h.Write([]byte(kind.String() + " " + strconv.FormatInt(size, 10) + "\x00"))
	return h
}

// Sum is the name of an object with this content.
func Sum(kind Kind, content []byte) (sum Hash) {
	h := newHash(kind, int64(len(content)))
	h.Write(content)
	return Hash(h.Sum(sum[:0]))
}

// An Entry is a member of a tree.
type Entry struct {
	Name string
	Mode fs.FileMode // fs.ModeDir, 0644 or 0755
	Hash Hash
}

// Encode returns the content of a tree with these entries.
func Encode(entries []Entry) []byte {
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.sortKey(), b.sortKey()) })
	var tree []byte
	for _, e := range entries {
		switch {
		case e.Mode.IsDir():
			tree = append(tree, "40000 "...)
		case e.Mode&0o100 != 0:
			tree = append(tree, "100755 "...)
		default:
			tree = append(tree, "100644 "...)
		}
		tree = append(append(append(tree, e.Name...), 0), e.Hash[:]...)
	}
	return tree
}

// sortKey orders a folder as if its name ended with a slash.
func (e Entry) sortKey() string {
	if e.Mode.IsDir() {
		return e.Name + "/"
	}
	return e.Name
}

// A Folder has the objects of a package.
type Folder struct {
	Root  Hash
	Trees map[Hash][]byte
	Files map[Hash]skillpkg.File
}

// Fits reports whether git takes these files into a work tree. A name that is .git on
// some file system would make it refuse the whole repository.
func Fits(p *skillpkg.Package) bool {
	for _, f := range p.Installed() {
		for segment := range strings.SplitSeq(f.Path, "/") {
			if reserved(segment) {
				return false
			}
		}
	}
	return true
}

// reserved reports whether a file system may take a name for .git: in any case, by
// its short name, with an NTFS stream, with trailing dots and spaces, or with
// characters that HFS+ ignores. Names that git has a use for must also not be taken
// for one of its own.
func reserved(segment string) bool {
	name := strings.ToLower(strings.Map(func(r rune) rune {
		if r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff {
			return -1
		}
		return r
	}, segment))
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, ". ")
	return name == ".git" || name == "git~1" || name == ".gitmodules" || strings.HasPrefix(name, "gitmod~") ||
		strings.Contains(segment, `\`)
}

// Of returns the objects of a package that Fits.
func Of(p *skillpkg.Package) (Folder, error) {
	out := Folder{Trees: map[Hash][]byte{}, Files: map[Hash]skillpkg.File{}}
	folders := map[string][]Entry{"": nil}
	for _, f := range p.Installed() {
		r, err := p.Open(f.Path)
		if err != nil {
			return out, err
		}
		h := newHash(Blob, f.Size)
		if _, err := spool.Copy(h, r); err != nil {
			return out, err
		}
		sum := Hash(h.Sum(nil))
		out.Files[sum] = f
		dir, name := path.Split(f.Path)
		dir = strings.TrimSuffix(dir, "/")
		folders[dir] = append(folders[dir], Entry{name, f.Mode, sum})
		for ; dir != ""; dir = parent(dir) {
			if _, ok := folders[parent(dir)]; !ok {
				folders[parent(dir)] = nil
			}
		}
	}
	// A folder is longer than the one that it lies in, so its tree is made before.
	paths := make([]string, 0, len(folders))
	for dir := range folders {
		paths = append(paths, dir)
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, dir := range paths {
		content := Encode(folders[dir])
		sum := Sum(Tree, content)
		out.Trees[sum] = content
		if dir == "" {
			out.Root = sum
			break
		}
		folders[parent(dir)] = append(folders[parent(dir)], Entry{path.Base(dir), fs.ModeDir, sum})
	}
	return out, nil
}

func parent(dir string) string {
	up := path.Dir(dir)
	if up == "." {
		return ""
	}
	return up
}
