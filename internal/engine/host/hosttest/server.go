package hosttest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// server is common to the fakes: it serves real repositories, and injects
// faults.
type server struct {
	tb    testing.TB
	Repos *Repos
	URL   string
	// heads names the refs of pull requests, "refs/pull/%d/head" when empty.
	heads string

	mu       sync.Mutex
	issues   []PostedIssue
	pulls    []*OpenedPull
	comments []PostedComment
	ids      map[string]int64
	moved    map[string]string // old full name to new
	faults   []Fault
	requests []string // method and path
	statuses []PostedStatus
	accounts []account
}

// A Fault replaces the response to a request: the next whose method and path
// contain a text, or all of them. Without an answer the request is served, and its
// response is lost.
type Fault struct {
	On     string
	Answer http.HandlerFunc
	Always bool
}

// A PostedStatus is a commit status that the server accepted.
type PostedStatus struct {
	FullName    string `json:"-"`
	SHA         string `json:"-"`
	State       string `json:"state"`
	Context     string `json:"context"`
	Description string `json:"description"`
	TargetURL   string `json:"target_url"`
	// Raw is the state in GitLab's words, of which State is GitHub's.
	Raw string `json:"-"`
}

// Break injects a fault.
func (s *server) Break(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

// Mend removes all faults.
func (s *server) Mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Status answers with a status and headers given as name, value, ...
func Status(status int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		problem(w, status, http.StatusText(status))
	}
}

// Requests lists the requests so far that hold a text.
func (s *server) Requests(text string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r string) bool { return !strings.Contains(r, text) })
}

// Statuses are the commit statuses so far.
func (s *server) Statuses() []PostedStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.statuses)
}

// Rename renames a repository; requests for the old name are redirected.
func (s *server) Rename(from, to string) {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(s.Repos.Bare(to)), 0o700); err != nil {
		s.tb.Fatal(err)
	}
	if err := os.Rename(s.Repos.Bare(from), s.Repos.Bare(to)); err != nil {
		s.tb.Fatal(err)
	}
	s.ids[to], s.moved[from] = s.id(from), to
	for _, p := range s.pulls {
		if p.Base == from {
			p.Base = to
		}
		if p.From == from {
			p.From = to
		}
	}
	for i, c := range s.comments {
		if c.FullName == from {
			s.comments[i].FullName = to
		}
	}
}

// id is called with the lock held.
func (s *server) id(fullName string) int64 {
	if s.ids[fullName] == 0 {
		s.ids[fullName] = int64(1000 + len(s.ids))
	}
	return s.ids[fullName]
}

// ID is the number of a repository.
func (s *server) ID(fullName string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id(fullName)
}

func (s *server) start(tb testing.TB, repos *Repos, handler http.Handler) {
	s.tb, s.Repos, s.ids, s.moved = tb, repos, map[string]int64{}, map[string]string{}
	started := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, broken := s.fault(r)
		switch {
		case !broken:
			handler.ServeHTTP(w, r)
		case f != nil:
			f(w, r)
		default:
			handler.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
	}))
	tb.Cleanup(started.Close)
	s.URL = started.URL
}

// fault records a request and finds the fault that replaces its response.
func (s *server) fault(r *http.Request) (http.HandlerFunc, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
	for i, f := range s.faults {
		if !strings.Contains(r.Method+" "+r.URL.Path, f.On) {
			continue
		}
		if !f.Always {
			s.faults = slices.Delete(s.faults, i, i+1)
		}
		return f.Answer, true
	}
	return nil, false
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client is gone if this fails
}

func problem(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]any{"message": message})
}

// page returns one page of a list and links to the next.
func page[T any](w http.ResponseWriter, r *http.Request, all []T, sizeName string, most int) []T {
	size, err := strconv.Atoi(r.URL.Query().Get(sizeName))
	if err != nil || size > most {
		size = most
	}
	number := max(1, atoi(r.URL.Query().Get("page")))
	from, to := min((number-1)*size, len(all)), min(number*size, len(all))
	if to < len(all) {
		next := *r.URL
		query := next.Query()
		query.Set("page", strconv.Itoa(number+1))
		next.RawQuery = query.Encode()
		w.Header().Set("Link", fmt.Sprintf(`<http://%s%s>; rel="next"`, r.Host, next.RequestURI()))
	}
	return all[from:to]
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s) // 0 will do for what is no number
	return n
}

// names lists the repositories below the folder, also those of subgroups.
func (s *server) names() []string {
	var names []string
	err := filepath.WalkDir(s.Repos.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || !strings.HasSuffix(path, ".git") {
			return err
		}
		inside, _ := filepath.Rel(s.Repos.Dir, path) // WalkDir has just found it there
		names = append(names, strings.TrimSuffix(filepath.ToSlash(inside), ".git"))
		return fs.SkipDir
	})
	if err != nil {
		s.tb.Error(err)
	}
	return names
}

// head is the ref of a pull request in the repository that it is to be merged into.
func (s *server) head(number int64) string {
	return fmt.Sprintf(cmp.Or(s.heads, "refs/pull/%d/head"), number)
}

// git asks a repository; ok is false if git refuses.
func (s *server) git(fullName string, args ...string) (string, bool) {
	out, err := run(s.Repos.Bare(fullName), args...)
	return out, err == nil
}

// exists reports whether there is such a repository.
func (s *server) exists(fullName string) bool { return slices.Contains(s.names(), fullName) }

// empty reports whether a repository has no commits.
func (s *server) empty(fullName string) bool {
	out, _ := s.git(fullName, "for-each-ref", "--count=1")
	return out == ""
}

// A ref of a repository, peeled.
type ref struct{ name, sha string }

func (s *server) refs(fullName, prefix string) []ref {
	out, _ := s.git(fullName, "for-each-ref", "--format=%(refname) %(objectname) %(*objectname)", prefix)
	var all []ref
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		all = append(all, ref{strings.TrimPrefix(f[0], prefix+"/"), f[len(f)-1]})
	}
	return all
}

// commit resolves what names a commit.
func (s *server) commit(fullName, name string) (sha, message string, ok bool) {
	sha, ok = s.git(fullName, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if !ok {
		return "", "", false
	}
	message, ok = s.git(fullName, "log", "-1", "--format=%B", sha)
	return sha, message, ok
}

// archive writes the tarball of a commit with a wrapper folder.
func (s *server) archive(w http.ResponseWriter, fullName, sha string) {
	wrapper := strings.ReplaceAll(fullName, "/", "-") + "-" + sha[:7] + "/"
	content, err := output(s.Repos.Bare(fullName), "archive", "--format=tar.gz", "--prefix="+wrapper, sha)
	if err != nil {
		problem(w, http.StatusNotFound, "Not Found")
		return
	}
	w.Header().Set("Content-Type", "application/x-gzip")
	_, _ = w.Write(content) // the client is gone if this fails
}

// defaultBranch is the branch that the repository's HEAD names.
func (s *server) defaultBranch(fullName string) string {
	branch, _ := s.git(fullName, "symbolic-ref", "--short", "HEAD")
	return branch
}

// lastPush is the time of the last commit on the branch.
func (s *server) lastPush(fullName string) *time.Time {
	out, ok := s.git(fullName, "log", "-1", "--format=%ct", s.defaultBranch(fullName))
	seconds, err := strconv.ParseInt(out, 10, 64)
	if !ok || err != nil {
		return nil
	}
	at := time.Unix(seconds, 0).UTC()
	return &at
}

// A PostedIssue is an issue of a repository.
type PostedIssue struct {
	FullName string `json:"-"`
	Number   int    `json:"number"`
	Title    string `json:"title"`
	Body     string `json:"body"`
	State    string `json:"state"`
}

// Issues are those of all repositories.
func (s *server) Issues() []PostedIssue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.issues)
}

// serveIssues lists the open issues, creates one or changes one. Both code hosts
// have the same fields.
func (s *server) serveIssues(w http.ResponseWriter, r *http.Request, fullName, number string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodGet {
		open := []PostedIssue{}
		for _, i := range s.issues {
			if i.FullName == fullName && i.State == "open" {
				open = append(open, i)
			}
		}
		writeJSON(w, http.StatusOK, open)
		return
	}
	at, err := strconv.Atoi(number)
	status := http.StatusOK
	if r.Method == http.MethodPost {
		s.issues = append(s.issues, PostedIssue{FullName: fullName, Number: len(s.issues) + 1, State: "open"})
		at, err, status = len(s.issues), nil, http.StatusCreated
	}
	if err != nil || at < 1 || at > len(s.issues) {
		problem(w, http.StatusNotFound, "Not Found")
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&s.issues[at-1]); err != nil {
		problem(w, http.StatusUnprocessableEntity, "Required")
		return
	}
	writeJSON(w, status, s.issues[at-1])
}
