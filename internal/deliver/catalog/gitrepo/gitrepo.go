// Package gitrepo serves the plugin marketplace of a shelf as a git repository that can
// be cloned and fetched from, for Codex, Copilot, Cursor, Claude Code and git itself. It
// owns the tables catalog_commits and catalog_commit_plugins.
package gitrepo

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/lru"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/marketplace"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/gittree"
)

// Service serves repositories. No repository is stored as such: commits are rows,
// and their objects are made from archives when a client fetches. The hashes are the
// same on every replica.
type Service struct {
	Catalog     *catalog.Service
	Marketplace *marketplace.Service
	// Memory bounds what making packs takes together with other large answers.
	Memory *httpapi.Budget

	once     sync.Once
	repos    *catalog.Cache[*repo]
	contents *lru.Cache[string, content] // by version
	reads    chan struct{}               // a semaphore
	packs    *lru.Cache[packKey, keptPack]
	packing  singleflight.Group
	// Set by tests; maxPack unless it is.
	maxPack int64
}

const (
	// maxRepos bounds the bytes of what is kept in memory.
	maxRepos = 48 << 20
	// maxBody bounds a request: a client names at most some thousand commits.
	maxBody = 1 << 20
)

const branch = "refs/heads/main"

func (s *Service) init() {
	s.repos = &catalog.Cache[*repo]{Registry: s.Catalog.Registry, Limit: maxRepos}
	s.contents = lru.New[string, content](maxContents)
	s.reads = make(chan struct{}, maxReads)
	s.packs = lru.New[packKey, keptPack](maxPacks)
	s.packs.OnDrop(func(p keptPack) { _ = p.Close() }) // it was only read
	s.maxPack = cmp.Or(s.maxPack, maxPack)
}

// Mount adds the repositories.
func (s *Service) Mount(a *httpapi.API) {
	s.once.Do(s.init)
	for _, base := range catalog.Bases() {
		a.Handle("GET "+base+"/marketplace.git/info/refs", catalog.Limit(), s.Catalog.Handler(s.handleRefs))
		a.Handle("POST "+base+"/marketplace.git/git-upload-pack", catalog.Limit(), s.Catalog.Handler(s.handleUploadPack))
	}
}

// repo returns what can be fetched from a shelf, from memory while that has not
// changed.
func (s *Service) repo(ctx context.Context, sh catalog.Shelf) (*repo, error) {
	return s.repos.Get(ctx, sh.Shelf, "", func(ctx context.Context) (*repo, int64, error) {
		r, err := s.read(ctx, sh.Shelf)
		if err != nil {
			return nil, 0, err
		}
		// Kept packs may hold what the shelf no longer shows, e.g. a withdrawn
		// version.
		served := map[gittree.Hash]bool{{}: true}
		for _, c := range r.commits {
			served[c.hash] = true
		}
		s.packs.RemoveFunc(func(key packKey) bool { return key.Shelf == sh.Shelf && (!served[key.top] || !served[key.bottom]) })
		return r, r.size(), nil
	})
}

// isV2 reports whether a client speaks version 2 of the protocol. The header is a
// list of key=value pairs separated by colons (git's protocol-v2).
func isV2(r *http.Request) bool {
	return slices.Contains(strings.Split(r.Header.Get("Git-Protocol"), ":"), "version=2")
}

// handleRefs answers the first request of a client. In version 2 it lists
// capabilities only, and the references are a command of their own.
func (s *Service) handleRefs(w http.ResponseWriter, r *http.Request, sh catalog.Shelf) error {
	w.Header().Set("Cache-Control", "no-cache")
	// Without the parameter it would be the dumb protocol; git-receive-pack is a
	// push.
	if service := r.URL.Query().Get("service"); service != "git-upload-pack" {
		http.Error(w, "this repository can only be fetched, by git's smart HTTP protocol", http.StatusForbidden)
		return nil
	}
	out := &strings.Builder{}
	if isV2(r) {
		for _, capability := range []string{
			"version 2", "agent=whetstone", "ls-refs=unborn", "fetch=shallow",
			"object-format=sha1",
		} {
			_ = writeLine(out, "%s", capability) // a Builder never fails
		}
	} else if err := s.writeOldRefs(r.Context(), out, sh); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
	_, err := io.WriteString(w, out.String()+flushLine)
	return sent(err)
}

// writeOldRefs lists the branch as versions 0 and 1 of the protocol do.
func (s *Service) writeOldRefs(ctx context.Context, out io.Writer, sh catalog.Shelf) error {
	repo, err := s.repo(ctx, sh)
	if err != nil {
		return err
	}
	const capabilities = "side-band-64k shallow no-progress symref=HEAD:" + branch + " object-format=sha1 agent=whetstone"
	_ = writeLine(out, "# service=git-upload-pack")
	_, _ = io.WriteString(out, flushLine)
	_ = writeLine(out, "%s HEAD\x00%s", repo.newest().hash, capabilities)
	_ = writeLine(out, "%s %s", repo.newest().hash, branch)
	if !repo.complete() {
		_ = writeLine(out, "shallow %s", repo.boundary().hash)
	}
	return nil
}

// sent hides an error of the connection: the client is gone, so nothing can be reported.
func sent(err error) error {
	if err != nil {
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
	return nil
}

// handleUploadPack answers the second request. The server keeps no state between
// requests: a client repeats what it has said so far.
func (s *Service) handleUploadPack(w http.ResponseWriter, r *http.Request, sh catalog.Shelf) error {
	w.Header().Set("Cache-Control", "no-cache")
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	lines, err := parseLines(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	if !isV2(r) {
		return s.oldFetch(r.Context(), w, sh, lines)
	}
	if len(lines) == 0 || lines[0].special != "" {
		return malformed("no command")
	}
	command, arguments := lines[0].text, lines[1:]
	// The capabilities say nothing that changes the answer.
	if at := slices.IndexFunc(arguments, func(l line) bool { return l.special == delimLine }); at >= 0 {
		arguments = arguments[at+1:] // after the capabilities
	} else {
		arguments = nil
	}
	switch command {
	case "command=ls-refs":
		return s.listRefs(r.Context(), w, sh, arguments)
	case "command=fetch":
		return s.fetch(r.Context(), w, sh, arguments)
	}
	return malformed("the command %q", command[:min(len(command), 64)])
}

// readBody returns the body of a request, which git compresses if it is long.
func readBody(w http.ResponseWriter, r *http.Request) (string, error) {
	var body io.Reader = http.MaxBytesReader(w, r.Body, maxBody)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return "", malformed("%v", err)
		}
		body = unzipped
	}
	// Both sizes are limited: a small compressed body could inflate to any size.
	raw, err := io.ReadAll(io.LimitReader(body, maxBody+1))
	if _, large := errors.AsType[*http.MaxBytesError](err); large || len(raw) > maxBody {
		return "", fault.New(fault.TooLarge, "The request is larger than %d bytes", maxBody)
	}
	if err != nil {
		return "", malformed("%v", err)
	}
	return string(raw), nil
}

// listRefs answers the command ls-refs: HEAD and the one branch, if a prefix
// matches.
func (s *Service) listRefs(ctx context.Context, w io.Writer, sh catalog.Shelf, arguments []line) error {
	repo, err := s.repo(ctx, sh)
	if err != nil {
		return err
	}
	var prefixes []string
	symrefs := false
	for _, a := range arguments {
		if prefix, ok := strings.CutPrefix(a.text, "ref-prefix "); ok {
			prefixes = append(prefixes, prefix)
		}
		symrefs = symrefs || a.text == "symrefs"
	}
	out := &strings.Builder{}
	for _, ref := range []string{"HEAD", branch} {
		if len(prefixes) > 0 && !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(ref, p) }) {
			continue
		}
		target := ""
		if ref == "HEAD" && symrefs {
			target = " symref-target:" + branch
		}
		_ = writeLine(out, "%s %s%s", repo.newest().hash, ref, target) // a Builder never fails
	}
	_, err = io.WriteString(w, out.String()+flushLine)
	return sent(err)
}

// answer finds what a client gets. It returns nil if it has been told an error.
func (s *Service) answer(ctx context.Context, w io.Writer, sh catalog.Shelf, q request) (*repo, *answer, error) {
	repo, err := s.repo(ctx, sh)
	if err != nil {
		return nil, nil, err
	}
	a, unknown, ok := repo.answerTo(q)
	if !ok {
		// Another replica may have told the client of a commit that is new.
		if repo, err = s.newer(ctx, sh, repo, unknown); err != nil {
			return nil, nil, err
		}
		if a, unknown, ok = repo.answerTo(q); !ok {
			hint := ""
			if repo.older[unknown] {
				hint = ": a skill was removed meanwhile: clone again"
			}
			return nil, nil, sent(writeLine(w, "ERR upload-pack: not our ref %s%s", unknown, hint))
		}
	}
	return repo, &a, nil
}

// newer reads the repository anew if it has a commit that was not in memory. The
// check is one lookup, so that unknown hashes do not make every request read all.
func (s *Service) newer(ctx context.Context, sh catalog.Shelf, old *repo, hash gittree.Hash) (*repo, error) {
	at, err := s.shelf(ctx, sh.Shelf)
	if err != nil {
		return nil, err
	}
	has, err := hasCommit(ctx, s.Catalog.Registry.DB, at.key, hash.String(), old.newest().number)
	if err != nil || !has {
		return old, err
	}
	return s.read(ctx, sh.Shelf)
}

// lostClone tells people what to do with a clone that cannot be continued.
const lostClone = "ERR this clone is older than what the server may still show: a skill was withdrawn or removed, or it has " +
	"missed too many changes. Clone again, or run: git fetch --depth 1 && git reset --hard origin/main"

// fetch answers the command of version 2. The sections of the answer and their order
// are those of git's protocol-v2, "fetch".
func (s *Service) fetch(ctx context.Context, w http.ResponseWriter, sh catalog.Shelf, arguments []line) error {
	q := request{shallow: map[gittree.Hash]bool{}, sideBand: true}
	for _, a := range arguments {
		if err := q.read(a.text); err != nil {
			return err
		}
	}
	if len(q.wants) == 0 {
		return malformed("no wants")
	}
	repo, a, err := s.answer(ctx, w, sh, q)
	if a == nil {
		return err
	}
	if a.lost {
		return sent(writeLine(w, lostClone))
	}
	out := bufio.NewWriterSize(w, maxLine)
	if !q.done {
		_ = writeLine(out, "acknowledgments") // a bufio.Writer keeps its first error
		for _, h := range a.common {
			_ = writeLine(out, "ACK %s", h)
		}
		// The client goes on to say what it has, in another request.
		if len(a.common) == 0 {
			_ = writeLine(out, "NAK")
			_, _ = out.WriteString(flushLine)
			return sent(out.Flush())
		}
		_ = writeLine(out, "ready")
		_, _ = out.WriteString(delimLine)
	}
	if q.depth > 0 || len(a.shallow) > 0 {
		_ = writeLine(out, "shallow-info")
		writeShallow(out, a)
		_, _ = out.WriteString(delimLine)
	}
	_ = writeLine(out, "packfile")
	return s.sendPack(ctx, out, sh, repo, a, q)
}

// writeShallow tells where the client's history ends from now on.
func writeShallow(out io.Writer, a *answer) {
	for _, h := range a.shallow {
		_ = writeLine(out, "shallow %s", h)
	}
	for _, h := range a.unshallow {
		_ = writeLine(out, "unshallow %s", h)
	}
}

// sendPack ends an answer with its pack. It may take minutes, so small packs are
// kept and large ones streamed.
func (s *Service) sendPack(ctx context.Context, out *bufio.Writer, sh catalog.Shelf, repo *repo, a *answer, q request) error {
	// Without side-band there is no way to send an error inside the pack.
	var pack io.Writer = out
	if q.sideBand {
		pack = bufio.NewWriterSize(band{out}, maxBand)
	}
	// A client that reads too slowly is disconnected: it holds memory of ours.
	pace := &paced{Writer: pack, began: time.Now()}
	kept, err := s.pack(ctx, sh, repo, a.selection)
	switch {
	case err != nil:
	case kept.Spool != nil:
		_, err = spool.Copy(pace, kept.Reader())
	default:
		err = s.writePack(ctx, pace, repo, a.selection)
	}
	if err != nil && q.sideBand {
		// The client shows the message and stops. The connection is not aborted: what the
		// server has not sent yet would be lost with it ("Empty reply from server").
		s.Catalog.Log.Warn("a git fetch failed", "error", err)
		_ = writeLine(out, "\x03the skills cannot be read now; try again")
		return sent(out.Flush())
	}
	if banded, ok := pack.(*bufio.Writer); ok && q.sideBand {
		err = banded.Flush()
		_, _ = out.WriteString(flushLine)
	}
	return sent(errors.Join(err, out.Flush()))
}

// oldFetch answers a request of versions 0 and 1.
func (s *Service) oldFetch(ctx context.Context, w http.ResponseWriter, sh catalog.Shelf, lines []line) error {
	q := request{shallow: map[gittree.Hash]bool{}}
	for _, l := range lines {
		if err := q.read(l.text); err != nil {
			return err
		}
	}
	if len(q.wants) == 0 {
		return nil // it has all that it wants
	}
	repo, a, err := s.answer(ctx, w, sh, q)
	if a == nil {
		return err
	}
	out := bufio.NewWriterSize(w, maxLine)
	if q.depth > 0 {
		writeShallow(out, a) // a bufio.Writer keeps its first error
		_, _ = out.WriteString(flushLine)
	}
	wants := slices.IndexFunc(lines, func(l line) bool { return l.special == flushLine })
	switch {
	case wants == len(lines)-1: // it first asks where the history ends
	case len(a.common) > 0:
		_ = writeLine(out, "ACK %s", a.common[0])
	default:
		_ = writeLine(out, "NAK")
	}
	if !q.done {
		return sent(out.Flush())
	}
	return s.sendPack(ctx, out, sh, repo, a, q)
}
