package gittree

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

var errMalformed = errors.New("malformed git object")

// A Revision is what a commit says. Its author, signatures and other headers are left
// out: nothing here depends on them.
type Revision struct {
	Hash      Hash
	Tree      Hash
	Parents   []Hash
	Committed time.Time // zero if it can't be read
	Message   string
}

// parseCommit reads the content of a commit, as leniently as git: only the tree must be
// there, and parents follow it.
func parseCommit(content []byte) (r Revision, err error) {
	header, message, _ := strings.Cut(string(content), "\n\n")
	r.Message = message
	lines := strings.Split(header, "\n")
	var ok bool
	if r.Tree, ok = hashAfter(lines[0], "tree "); !ok {
		return r, errMalformed
	}
	for _, line := range lines[1:] {
		switch {
		case strings.HasPrefix(line, "parent "):
			parent, ok := hashAfter(line, "parent ")
			if !ok {
				return r, errMalformed
			}
			r.Parents = append(r.Parents, parent)
		case strings.HasPrefix(line, "committer "):
			// "committer NAME <ADDRESS> SECONDS ZONE", where NAME may hold anything.
			fields := strings.Fields(line[strings.LastIndexByte(line, '>')+1:])
			if len(fields) > 0 {
				if seconds, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
					r.Committed = time.Unix(seconds, 0).UTC()
				}
			}
			return r, nil
		case !strings.HasPrefix(line, "author "):
			return r, nil
		}
	}
	return r, nil
}

// tagTarget reads from the content of an annotated tag what it points to.
func tagTarget(content []byte) (Hash, error) {
	line, _, _ := strings.Cut(string(content), "\n")
	target, ok := hashAfter(line, "object ")
	if !ok {
		return target, errMalformed
	}
	return target, nil
}

func hashAfter(line, prefix string) (Hash, bool) {
	if !strings.HasPrefix(line, prefix) {
		return Hash{}, false
	}
	return ParseHash(line[len(prefix):])
}

// A MemberKind is the type of a member of a tree.
type MemberKind int

// The kinds of members. Git takes what is none of them for a submodule.
const (
	IsSubmodule  MemberKind = 0
	IsFolder     MemberKind = 0o040000
	IsFile       MemberKind = 0o100000
	IsExecutable MemberKind = 0o100755
	IsLink       MemberKind = 0o120000
)

// A Member is an entry of a tree that somebody else made.
type Member struct {
	Name string
	Kind MemberKind
	Hash Hash
	at   int // where the hash is in the content of the tree
}

// parseTree reads the content of a tree.
func parseTree(content []byte) (members []Member, err error) {
	for at := 0; at < len(content); {
		mode, rest, ok := bytes.Cut(content[at:], []byte{' '})
		name, rest, named := bytes.Cut(rest, []byte{0})
		bits, err := strconv.ParseUint(string(mode), 8, 32)
		if !ok || !named || err != nil || len(name) == 0 || len(rest) < len(Hash{}) {
			return nil, errMalformed
		}
		m := Member{Name: string(name), at: len(content) - len(rest), Hash: Hash(rest[:len(Hash{})])}
		switch kind := MemberKind(bits & 0o170000); kind {
		case IsFolder, IsLink:
			m.Kind = kind
		case IsSubmodule, IsExecutable: // not in these bits
		case IsFile:
			m.Kind = IsFile
			if bits&0o111 != 0 {
				m.Kind = IsExecutable
			}
		}
		members = append(members, m)
		at = m.at + len(Hash{})
	}
	return members, nil
}

// A StoredTree is a tree as it is stored, so that one member can be changed while
// the bytes of the others stay.
type StoredTree struct {
	Members []Member
	content []byte
}

// Find returns the member of a name.
func (t StoredTree) Find(name string) (Member, bool) {
	i := slices.IndexFunc(t.Members, func(m Member) bool { return m.Name == name })
	if i < 0 {
		return Member{}, false
	}
	return t.Members[i], true
}

// With returns the content of the tree in which a member has another hash.
func (t StoredTree) With(m Member, hash Hash) []byte {
	content := bytes.Clone(t.content)
	copy(content[m.at:], hash[:])
	return content
}
