package gittree_test

import (
	"errors"
	"testing"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/gittree"
)

const sha = "0123456789012345678901234567890123456789"

// FuzzParse compares what is read of an object with go-git's package object: what that
// takes is taken, and means the same.
func FuzzParse(f *testing.F) {
	f.Add("tree " + sha + "\nparent " + sha + "\nparent " + sha + "\nauthor A <a@b> 1 +0000\ncommitter A <x> <a@b> 1700000000 -0130\nencoding x\ngpgsig a\n \n b\n\nsubject\n\nbody\n")
	f.Add("tree " + sha + "\n\nparent " + sha)
	f.Add("tree " + sha + "\ncommitter A <a@b> 99\nparent " + sha + "\n\n")
	f.Add("object " + sha + "\ntype commit\ntag v1\ntagger A <a@b> 1 +0000\n\nv1\n")
	f.Add("100644 a\x00" + sha[:20] + "40000 b\x00" + sha[:20] + "120000 c\x00" + sha[:20] + "100664 d\x00" + sha[:20] + "160000 e\x00" + sha[:20] + "100755 f\x00" + sha[:20])
	f.Fuzz(func(t *testing.T, content string) {
		encoded := func(kind plumbing.ObjectType) plumbing.EncodedObject {
			o := &plumbing.MemoryObject{}
			o.SetType(kind)
			if _, err := o.Write([]byte(content)); err != nil {
				t.Fatal(err)
			}
			return o
		}
		var commit object.Commit
		got, err := gittree.ParseCommit([]byte(content))
		if commit.Decode(encoded(plumbing.CommitObject)) == nil {
			if err != nil || plumbing.Hash(got.Tree) != commit.TreeHash || len(got.Parents) != len(commit.ParentHashes) || got.Message != commit.Message {
				t.Errorf("got %+v, %v, want %+v", got, err, commit)
			}
			if !commit.Committer.When.IsZero() && !got.Committed.Equal(commit.Committer.When) {
				t.Errorf("committed at %s, want %s", got.Committed, commit.Committer.When)
			}
		}
		var tag object.Tag
		if target, err := gittree.TagTarget([]byte(content)); tag.Decode(encoded(plumbing.TagObject)) == nil &&
			(err != nil || plumbing.Hash(target) != tag.Target) {
			t.Errorf("the tag points to %s, %v, want %s", target, err, tag.Target)
		}
		var tree object.Tree
		members, err := gittree.ParseTree([]byte(content))
		if tree.Decode(encoded(plumbing.TreeObject)) != nil {
			return
		}
		if err != nil || len(members) != len(tree.Entries) {
			t.Fatalf("got %+v, %v, want %+v", members, err, tree.Entries)
		}
		for i, want := range tree.Entries {
			if m := members[i]; m.Name != want.Name || plumbing.Hash(m.Hash) != want.Hash || m.Kind != kindOf(want.Mode) {
				t.Errorf("got %+v, want %+v", m, want)
			}
		}
	})
}

func kindOf(mode filemode.FileMode) gittree.MemberKind {
	switch mode {
	case filemode.Dir:
		return gittree.IsFolder
	case filemode.Regular:
		return gittree.IsFile
	case filemode.Executable:
		return gittree.IsExecutable
	case filemode.Symlink:
		return gittree.IsLink
	}
	return gittree.IsSubmodule
}

const tagKind gittree.Kind = 4 // annotated tags, which only others make

// TestRepository writes objects and reads them again, through a tag of a tag.
func TestRepository(t *testing.T) {
	t.Parallel()
	dir := osfs.New(t.TempDir())
	if _, err := gittree.Open(dir); !errors.Is(err, gittree.ErrNotRepository) {
		t.Errorf("an empty folder: %v", err)
	}
	if err := gittree.At(dir).InitBare(); err != nil {
		t.Fatal(err)
	}
	r, err := gittree.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	write := func(kind gittree.Kind, content string) gittree.Hash {
		t.Helper()
		hash, err := r.Write(kind, []byte(content))
		if err != nil || kind <= gittree.Blob && hash != gittree.Sum(kind, []byte(content)) {
			t.Fatalf("%s, %v", hash, err)
		}
		return hash
	}
	one, two := write(gittree.Blob, "one"), write(gittree.Blob, "two")
	tree := write(gittree.Tree, "100644 a\x00"+string(one[:])+"160000 b\x00"+string(one[:]))
	commit := write(gittree.Commit, "tree "+tree.String()+"\ncommitter A <a> 5 +0000\n\nmessage")
	tag := write(tagKind, "object "+commit.String()+"\ntype commit\ntag x\n\n")
	tagged := write(tagKind, "object "+tag.String()+"\ntype tag\ntag y\n\n")
	found, err := r.Peel(tagged)
	if err != nil || found.Hash != commit || found.Tree != tree || found.Message != "message" || found.Committed.Unix() != 5 {
		t.Errorf("got %+v, %v", found, err)
	}
	if _, err := r.Peel(one); !fault.Is(err, fault.NotFound) {
		t.Errorf("a blob for a commit: %v", err)
	}
	read, err := r.Tree(tree)
	member, ok := read.Find("a")
	if err != nil || !ok {
		t.Fatal(err, ok)
	}
	changed := "100644 a\x00" + string(two[:]) + "160000 b\x00" + string(one[:])
	if got := string(read.With(member, two)); got != changed {
		t.Errorf("got %q, want %q", got, changed)
	}
	if _, err := r.Tree(commit); !fault.Is(err, fault.NotFound) {
		t.Errorf("a commit for a tree: %v", err)
	}
}

// TestOpenRefusesExtensions: their objects or refs may be stored in another way.
func TestOpenRefusesExtensions(t *testing.T) {
	t.Parallel()
	for config, ok := range map[string]bool{
		"[core]\n\tbare = true\n": true,
		"[core]\n\trepositoryformatversion = 1\n[extensions]\n\tnoop = true\n":           true,
		"[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n": false,
	} {
		dir := osfs.New(t.TempDir())
		if err := gittree.At(dir).InitBare(); err != nil {
			t.Fatal(err)
		}
		f, err := dir.Create("config")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(config)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := gittree.Open(dir); (err == nil) != ok {
			t.Errorf("%q: %v", config, err)
		}
	}
}
