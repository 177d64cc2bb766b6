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

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/gittree"
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
	w := walk{all: all, found: make([]gittree.Hash, len(all)), reverted: map[gittree.Hash]time.Time{}}
	complete := w.run(ctx, repo)
	for i, c := range all {
		switch found := w.found[i]; {
		case found != gittree.Hash{}:
			at, reverted := w.reverted[found]
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
func open(dir string) (repo *gittree.Repository, gitDir string, ok bool) {
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
	repo, err := gittree.Open(osfs.New(gitDir))
	return repo, gitDir, err == nil
}

// openLinked opens a working tree whose .git is a file that names the folder.
func openLinked(dir string) (*gittree.Repository, string, bool) {
	gitDir, ok := pathIn(filepath.Join(dir, ".git"), "gitdir: ")
	if !ok || !isPlain(gitDir) {
		return nil, "", false
	}
	// Of a working tree that was added to a repository, the objects and refs are there.
	var common billy.Filesystem
	if shared, ok := pathIn(filepath.Join(gitDir, "commondir"), ""); ok {
		common = osfs.New(shared)
	}
	repo, err := gittree.Open(dotgit.NewRepositoryFilesystem(osfs.New(gitDir), common))
	return repo, gitDir, err == nil
}

// pathIn reads a file of one line, the path of a folder, which may be relative to the
// file's own.
func pathIn(file, prefix string) (string, bool) {
	raw, err := os.ReadFile(file)
	line, _, _ := strings.Cut(string(raw), "\n")
	path, ok := strings.CutPrefix(line, prefix)
	path = strings.TrimSpace(path)
	if err != nil || !ok || path == "" {
		return "", false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	return path, true
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
	found    []gittree.Hash             // zero if it wasn't
	reverted map[gittree.Hash]time.Time // when
	queue    newestFirst
	seen     map[gittree.Hash]bool
}

// run walks back to the time of the oldest commit. It reports whether everything up to
// there was read.
func (w *walk) run(ctx context.Context, repo *gittree.Repository) bool {
	oldest := w.all[0].From
	for _, c := range w.all {
		if c.From.Before(oldest) {
			oldest = c.From
		}
	}
	w.seen = map[gittree.Hash]bool{}
	for _, tip := range tips(repo) {
		w.add(repo, tip)
	}
	if len(w.queue) == 0 {
		return false
	}
	for len(w.queue) > 0 && ctx.Err() == nil {
		c := heap.Pop(&w.queue).(gittree.Revision)
		if c.Committed.Before(oldest.Add(-skew)) {
			return true
		}
		w.visit(c)
		for _, parent := range c.Parents {
			if len(w.seen) == maxWalked || !w.add(repo, parent) {
				return false
			}
		}
	}
	return ctx.Err() == nil
}

// tips returns the commits of the current branch and of the default one.
func tips(repo *gittree.Repository) (all []gittree.Hash) {
	for _, name := range []plumbing.ReferenceName{
		plumbing.HEAD, plumbing.NewRemoteHEADReferenceName("origin"), plumbing.Main, plumbing.Master,
	} {
		if ref, err := repo.Ref(name); err == nil {
			all = append(all, ref)
		}
	}
	return all
}

// add queues a commit. It reports false if it is not there, e.g. in a shallow clone.
func (w *walk) add(repo *gittree.Repository, hash gittree.Hash) bool {
	if w.seen[hash] {
		return true
	}
	w.seen[hash] = true
	c, err := repo.Commit(hash)
	if err != nil {
		return false
	}
	heap.Push(&w.queue, c)
	return true
}

var reverts = regexp.MustCompile(`\bThis reverts commit ([0-9a-f]{40})\b`)

// visit notes whether a commit is one of those that are looked for, and what it
// reverts, unless it was reverted itself: that commit is newer, and was seen before.
func (w *walk) visit(c gittree.Revision) {
	hash, made := c.Hash.String(), c.Committed
	for i, want := range w.all {
		if strings.HasPrefix(hash, want.Hash) && !made.Before(want.From.Add(-skew)) && !made.After(want.To.Add(skew)) {
			w.found[i] = c.Hash
		}
	}
	if _, reverted := w.reverted[c.Hash]; reverted {
		return
	}
	for _, match := range reverts.FindAllStringSubmatch(c.Message, -1) {
		w.reverted[gittree.Hash(plumbing.NewHash(match[1]))] = c.Committed
	}
}

// wasDropped reports whether the log of HEAD has that a commit was amended, or that the
// branch was reset to one before it, after the session.
func wasDropped(repo *gittree.Repository, gitDir string, c localCommit) bool {
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
			strings.HasPrefix(message, "reset:") && isAncestor(repo, gittree.Hash(plumbing.NewHash(now)), gittree.Hash(plumbing.NewHash(old))) {
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
func isAncestor(repo *gittree.Repository, ancestor, of gittree.Hash) bool {
	for range maxAncestors {
		c, err := repo.Commit(of)
		if err != nil || len(c.Parents) == 0 {
			return false
		}
		if of = c.Parents[0]; of == ancestor {
			return true
		}
	}
	return false
}

// newestFirst is a heap.Interface.
type newestFirst []gittree.Revision

func (h newestFirst) Len() int           { return len(h) }
func (h newestFirst) Less(i, j int) bool { return h[i].Committed.After(h[j].Committed) }
func (h newestFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *newestFirst) Push(c any)        { *h = append(*h, c.(gittree.Revision)) }

func (h *newestFirst) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	*h = (*h)[:last]
	return c
}
