package transcripts

import (
	"bufio"
	"container/heap"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// A localCommit is one that a session made. What became of it is read from the repository,
// and no program is run for that: a repository can name programs that git would run.
type localCommit struct {
	Hash string // abbreviated
	// From and To are when the command ran: the commit was made between them.
	From, To time.Time
	// Ended is when the session ended. What it did to its own commits is no verdict on
	// them.
	Ended time.Time
}

// A fate is what became of a commit.
type fate int

// The fates. A commit of another branch, or of one that was rebased or squashed, is
// Unknown.
const (
	fateUnknown  fate = iota
	fateSurvived      // it is part of the current or the default branch, and was not reverted
	fateLost          // it was reverted, amended or reset after the session
)

const (
	// skew is how much clocks may differ, and how long a commit may take to be
	// reported.
	skew = 2 * time.Minute
	// maxWalked is how many commits are read of a repository.
	maxWalked = 50_000
	// maxIndex is up to which size of its pack indexes a repository is read: go-git
	// holds them in memory. It is enough for about two million objects.
	maxIndex = 64 << 20
	// maxAncestors is how far back a reset is followed.
	maxAncestors = 100
)

// fatesOf returns what became of commits in the repository of a folder. What cannot be
// read is unknown.
func fatesOf(ctx context.Context, dir string, all []localCommit) (fates []fate) {
	defer func() {
		if recover() != nil { // go-git, in a corrupt repository
			fates = make([]fate, len(all))
		}
	}()
	fates = make([]fate, len(all))
	repo, gitDir, ok := open(dir)
	if !ok || len(all) == 0 {
		return fates
	}
	w := walk{all: all, found: make([]*object.Commit, len(all)), reverted: map[plumbing.Hash]time.Time{}}
	complete := w.run(ctx, repo)
	for i, c := range all {
		switch found := w.found[i]; {
		case found != nil:
			at, reverted := w.reverted[found.Hash]
			if !reverted {
				fates[i] = fateSurvived
			} else if at.After(c.Ended) {
				fates[i] = fateLost
			}
		case complete && wasDropped(repo, gitDir, c):
			fates[i] = fateLost
		}
	}
	return fates
}

// open opens the repository of a folder, unless it is too large, or something in it is
// no plain file.
func open(dir string) (repo *git.Repository, gitDir string, ok bool) {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		info, err := os.Lstat(filepath.Join(at, ".git"))
		if err == nil && info.IsDir() {
			gitDir = filepath.Join(at, ".git")
			break
		}
		if err == nil && !info.Mode().IsRegular() || at == filepath.Dir(at) {
			return nil, "", false
		}
		if err == nil { // a linked working tree
			return openLinked(at)
		}
	}
	if !isPlain(gitDir) {
		return nil, "", false
	}
	repo, err := git.PlainOpen(filepath.Dir(gitDir))
	return repo, gitDir, err == nil
}

// openLinked opens a working tree whose .git is a file that names the folder.
func openLinked(dir string) (*git.Repository, string, bool) {
	repo, err := git.PlainOpenWithOptions(dir, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return nil, "", false
	}
	files, ok := repo.Storer.(*filesystem.Storage)
	if !ok {
		return nil, "", false
	}
	gitDir := files.Filesystem().Root()
	return repo, gitDir, isPlain(gitDir)
}

// isPlain reports whether the files of a repository are regular ones, and its indexes
// small enough.
func isPlain(gitDir string) bool {
	for _, name := range []string{"HEAD", "config", "packed-refs", filepath.Join("logs", "HEAD")} {
		if info, err := os.Stat(filepath.Join(gitDir, name)); err == nil && !info.Mode().IsRegular() {
			return false
		}
	}
	packs, err := os.ReadDir(filepath.Join(gitDir, "objects", "pack"))
	if err != nil {
		return os.IsNotExist(err)
	}
	size := int64(0)
	for _, f := range packs {
		info, err := f.Info()
		if err != nil || !info.Mode().IsRegular() {
			return false
		}
		if filepath.Ext(f.Name()) == ".idx" {
			size += info.Size()
		}
	}
	return size <= maxIndex
}

// A walk reads the commits of the branches, newest first.
type walk struct {
	all      []localCommit
	found    []*object.Commit
	reverted map[plumbing.Hash]time.Time // when
	queue    newestFirst
	seen     map[plumbing.Hash]bool
}

// run walks back to the time of the oldest commit. It reports whether everything up to
// there was read.
func (w *walk) run(ctx context.Context, repo *git.Repository) bool {
	oldest := w.all[0].From
	for _, c := range w.all {
		if c.From.Before(oldest) {
			oldest = c.From
		}
	}
	w.seen = map[plumbing.Hash]bool{}
	for _, tip := range tips(repo) {
		w.add(repo, tip)
	}
	if len(w.queue) == 0 {
		return false
	}
	for len(w.queue) > 0 && ctx.Err() == nil {
		c := heap.Pop(&w.queue).(*object.Commit)
		if c.Committer.When.Before(oldest.Add(-skew)) {
			return true
		}
		w.visit(c)
		for _, parent := range c.ParentHashes {
			if len(w.seen) == maxWalked || !w.add(repo, parent) {
				return false
			}
		}
	}
	return ctx.Err() == nil
}

// tips returns the commits of the current branch and of the default one.
func tips(repo *git.Repository) (all []plumbing.Hash) {
	for _, name := range []plumbing.ReferenceName{
		plumbing.HEAD, plumbing.NewRemoteHEADReferenceName("origin"), plumbing.Main, plumbing.Master,
	} {
		if ref, err := repo.Reference(name, true); err == nil {
			all = append(all, ref.Hash())
		}
	}
	return all
}

// add queues a commit. It reports false if it is not there, e.g. in a shallow clone.
func (w *walk) add(repo *git.Repository, hash plumbing.Hash) bool {
	if w.seen[hash] {
		return true
	}
	w.seen[hash] = true
	c, err := repo.CommitObject(hash)
	if err != nil {
		return false
	}
	heap.Push(&w.queue, c)
	return true
}

var reverts = regexp.MustCompile(`\bThis reverts commit ([0-9a-f]{40})\b`)

// visit notes whether a commit is one of those that are looked for, and what it
// reverts, unless it was reverted itself: that commit is newer, and was seen before.
func (w *walk) visit(c *object.Commit) {
	hash, made := c.Hash.String(), c.Committer.When
	for i, want := range w.all {
		if strings.HasPrefix(hash, want.Hash) && !made.Before(want.From.Add(-skew)) && !made.After(want.To.Add(skew)) {
			w.found[i] = c
		}
	}
	if _, reverted := w.reverted[c.Hash]; reverted {
		return
	}
	for _, match := range reverts.FindAllStringSubmatch(c.Message, -1) {
		w.reverted[plumbing.NewHash(match[1])] = c.Committer.When
	}
}

// wasDropped reports whether the log of HEAD has that a commit was amended, or that the
// branch was reset to one before it, after the session.
func wasDropped(repo *git.Repository, gitDir string, c localCommit) bool {
	f, err := os.Open(filepath.Join(gitDir, "logs", "HEAD"))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	lines := bufio.NewScanner(io.LimitReader(f, 64<<20))
	for lines.Scan() {
		old, now, at, message, ok := parseLog(lines.Text())
		if !ok || !strings.HasPrefix(old, c.Hash) || !at.After(c.Ended) {
			continue
		}
		if strings.HasPrefix(message, "commit (amend)") ||
			strings.HasPrefix(message, "reset:") && isAncestor(repo, plumbing.NewHash(now), plumbing.NewHash(old)) {
			return true
		}
	}
	return false
}

// parseLog parses a line of a reference's log:
//
//	<old> <new> <name> <e-mail> <seconds> <zone>\t<message>
func parseLog(line string) (old, now string, at time.Time, message string, ok bool) {
	head, message, ok := strings.Cut(line, "\t")
	fields := strings.Fields(head)
	if !ok || len(fields) < 5 {
		return "", "", at, "", false
	}
	seconds, err := strconv.ParseInt(fields[len(fields)-2], 10, 64)
	return fields[0], fields[1], time.Unix(seconds, 0), message, err == nil
}

// isAncestor reports whether a commit is one of the last before another one.
func isAncestor(repo *git.Repository, ancestor, of plumbing.Hash) bool {
	for range maxAncestors {
		c, err := repo.CommitObject(of)
		if err != nil || len(c.ParentHashes) == 0 {
			return false
		}
		if of = c.ParentHashes[0]; of == ancestor {
			return true
		}
	}
	return false
}

// newestFirst is a heap.Interface.
type newestFirst []*object.Commit

func (h newestFirst) Len() int           { return len(h) }
func (h newestFirst) Less(i, j int) bool { return h[i].Committer.When.After(h[j].Committer.When) }
func (h newestFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *newestFirst) Push(c any)        { *h = append(*h, c.(*object.Commit)) }

func (h *newestFirst) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	*h = (*h)[:last]
	return c
}
