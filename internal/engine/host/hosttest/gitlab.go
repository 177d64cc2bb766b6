package hosttest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// GitLab is a fake of GitLab's API v4.
type GitLab struct {
	server
	// Token is the operator's, who sees everything.
	Token string
	// Tokens are those of users and of groups' bots, by the token.
	Tokens map[string]GitLabUser
	// Owners are the users that own a group, by its path. They see what is below it.
	Owners map[string]int64
	// Elsewhere is another origin, which archives are redirected to if Redirect is true.
	Elsewhere *httptest.Server
	Redirect  bool

	// Guarded by the lock.
	reached []string // the tokens that the other origin saw
}

// A GitLabUser is whom a token belongs to.
type GitLabUser struct {
	ID       int64
	Username string
	Bot      bool
	Group    string // of a bot
}

// operator is whom the operator's token belongs to.
var operator = GitLabUser{ID: 2, Username: "operator"}

// NewGitLab starts a server for the repositories.
func NewGitLab(tb testing.TB, repos *Repos) *GitLab {
	tb.Helper()
	g := &GitLab{Token: "sesame", Tokens: map[string]GitLabUser{}, Owners: map[string]int64{}}
	g.heads = "refs/merge-requests/%d/head"
	g.Elsewhere = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.reached = append(g.reached, r.Header.Get("Private-Token")+r.Header.Get("Authorization"))
		g.mu.Unlock()
		g.archive(w, r.FormValue("repo"), r.FormValue("sha"))
	}))
	tb.Cleanup(g.Elsewhere.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v4/user", func(w http.ResponseWriter, r *http.Request) {
		u, _ := g.user(r)
		writeJSON(w, http.StatusOK, map[string]any{"id": u.ID, "username": u.Username, "state": "active", "bot": u.Bot})
	})
	mux.HandleFunc("GET /api/v4/users", g.serveUsers)
	mux.HandleFunc("GET /api/v4/users/{user}/projects", g.serveNone)
	mux.HandleFunc("GET /api/v4/groups/{group}", g.serveGroup)
	mux.HandleFunc("GET /api/v4/groups/{group}/projects", g.serveProjects)
	mux.HandleFunc("GET /api/v4/groups/{group}/members/all/{user}", g.serveMember)
	mux.HandleFunc("/api/v4/projects/{project}", g.serveProject)
	mux.HandleFunc("/api/v4/projects/{project}/{rest...}", g.serveProject)
	g.start(tb, repos, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := g.user(r); !ok {
			writeJSON(w, http.StatusUnauthorized, map[string]any{"message": "401 Unauthorized"})
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return g
}

// Delete deletes a project, e.g. a fork.
func (g *GitLab) Delete(fullName string) {
	g.tb.Helper()
	if err := os.RemoveAll(g.Repos.Bare(fullName)); err != nil {
		g.tb.Fatal(err)
	}
}

// Reached are the tokens that the other origin saw, "" for none.
func (g *GitLab) Reached() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.reached)
}

func (g *GitLab) user(r *http.Request) (GitLabUser, bool) {
	token := r.Header.Get("Private-Token")
	if token == g.Token {
		return operator, true
	}
	u, ok := g.Tokens[token]
	return u, ok
}

// sees reports whether the request's token may see a project, or a group.
func (g *GitLab) sees(r *http.Request, path string) bool {
	u, _ := g.user(r)
	if u == operator || u.Group != "" && strings.HasPrefix(path+"/", u.Group+"/") || strings.HasPrefix(path+"/", u.Username+"/") {
		return true
	}
	for group, id := range g.Owners {
		if id == u.ID && strings.HasPrefix(path+"/", group+"/") {
			return true
		}
	}
	return false
}

// notFound is how GitLab says it, with the name of the thing.
func notFound(w http.ResponseWriter, what string) {
	problem(w, http.StatusNotFound, "404 "+what+" Not Found")
}

// invalid has an object as its message, with the problems of each field.
func invalid(w http.ResponseWriter, field, is string) {
	writeJSON(w, http.StatusBadRequest, map[string]any{"message": map[string]any{field: []string{is}}})
}

// serveUsers finds public addresses, and names.
func (g *GitLab) serveUsers(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := []map[string]any{}
	for _, a := range g.accounts {
		if s := r.FormValue("search"); s == a.email || s == a.login {
			out = append(out, map[string]any{"id": a.id, "username": a.login, "state": "active"})
		}
	}
	writeJSON(w, http.StatusOK, out)
}

func (g *GitLab) serveNone(w http.ResponseWriter, _ *http.Request) { notFound(w, "User") }

// isGroup reports whether there is a project below a path.
func (g *GitLab) isGroup(path string) bool {
	return slices.ContainsFunc(g.names(), func(name string) bool { return strings.HasPrefix(name, path+"/") })
}

func (g *GitLab) serveGroup(w http.ResponseWriter, r *http.Request) {
	path := r.PathValue("group")
	if !g.isGroup(path) || !g.sees(r, path) {
		notFound(w, "Group")
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"id": g.ID("group " + path), "full_path": path})
}

func (g *GitLab) serveMember(w http.ResponseWriter, r *http.Request) {
	for group, id := range g.Owners {
		if fmt.Sprint(g.ID("group "+group)) == r.PathValue("group") && fmt.Sprint(id) == r.PathValue("user") {
			writeJSON(w, http.StatusOK, map[string]any{"id": id, "access_level": 50})
			return
		}
	}
	notFound(w, "Not found") // as the real one says it
}

// serveProjects lists those of a group, with those of its subgroups, by page numbers.
func (g *GitLab) serveProjects(w http.ResponseWriter, r *http.Request) {
	path := r.PathValue("group")
	if !g.isGroup(path) || !g.sees(r, path) {
		notFound(w, "Group")
		return
	}
	below := slices.DeleteFunc(g.names(), func(name string) bool {
		rest, ok := strings.CutPrefix(name, path+"/")
		return !ok || strings.Contains(rest, "/") && r.FormValue("include_subgroups") != "true"
	})
	w.Header().Set("X-Total", strconv.Itoa(len(below)))
	out := []map[string]any{}
	for _, name := range page(w, r, below, "per_page", 1) {
		out = append(out, g.project(name))
	}
	writeJSON(w, http.StatusOK, out)
}

func (g *GitLab) project(fullName string) map[string]any {
	at := strings.LastIndexByte(fullName, '/')
	return map[string]any{
		"id": g.ID(fullName), "path": fullName[at+1:], "name": "A name", "path_with_namespace": fullName,
		"namespace": map[string]any{"full_path": fullName[:at], "kind": "group"}, "visibility": "private",
		"default_branch": g.defaultBranch(fullName), "web_url": "https://gitlab.example/" + fullName,
		"empty_repo": g.empty(fullName), "last_activity_at": g.lastPush(fullName),
	}
}

// serveProject finds a project by its number or by its path. One that was renamed is
// redirected to its number, but only for GET.
func (g *GitLab) serveProject(w http.ResponseWriter, r *http.Request) {
	name, rest := r.PathValue("project"), r.PathValue("rest")
	if _, err := strconv.Atoi(name); err == nil {
		i := slices.IndexFunc(g.names(), func(n string) bool { return fmt.Sprint(g.ID(n)) == r.PathValue("project") })
		if i < 0 {
			notFound(w, "Project")
			return
		}
		name = g.names()[i]
	}
	g.mu.Lock()
	to := g.moved[name]
	g.mu.Unlock()
	if to != "" {
		if r.Method != http.MethodGet {
			problem(w, http.StatusMethodNotAllowed, "Non GET methods are not allowed for moved projects")
			return
		}
		// GitLab's address for others, which may not be the one that the request came by.
		w.Header().Set("Location", strings.TrimSuffix(fmt.Sprintf("%s/api/v4/projects/%d/%s", g.Elsewhere.URL, g.ID(to), rest), "/"))
		problem(w, http.StatusMovedPermanently, "301 Moved Permanently")
		return
	}
	if !g.exists(name) || !g.sees(r, name) {
		notFound(w, "Project")
		return
	}
	g.serve(w, r, name, rest)
}

func (g *GitLab) serve(w http.ResponseWriter, r *http.Request, fullName, rest string) {
	what, arg, _ := strings.Cut(rest, "/")
	switch {
	case rest == "":
		writeJSON(w, http.StatusOK, g.project(fullName))
	case what == "repository":
		g.serveRepository(w, r, fullName, arg)
	case what == "statuses" && r.Method == http.MethodPost:
		g.takeStatus(w, r, fullName, arg)
	case what == "merge_requests":
		g.serveMergeRequests(w, r, fullName, arg)
	case what == "issues":
		g.serveIssues(w, r, fullName, arg)
	default:
		writeJSON(w, http.StatusNotFound, map[string]any{"error": "404 Not Found"})
	}
}

func (g *GitLab) serveRepository(w http.ResponseWriter, r *http.Request, fullName, rest string) {
	what, arg, _ := strings.Cut(rest, "/")
	sha, merge := strings.CutSuffix(arg, "/merge_requests")
	switch {
	case what == "branches":
		g.serveRefs(w, r, fullName, "refs/heads", arg)
	case what == "tags":
		g.serveRefs(w, r, fullName, "refs/tags", arg)
	case what == "commits" && r.Method == http.MethodPost:
		g.takeCommit(w, r, fullName)
	case what == "commits" && merge:
		g.serveOfCommit(w, fullName, sha)
	case what == "commits":
		if shown := g.shown(fullName, arg); shown != nil {
			writeJSON(w, http.StatusOK, shown)
			return
		}
		notFound(w, "Commit")
	case what == "archive.tar.gz":
		g.serveArchive(w, r, fullName)
	case what == "files":
		g.serveFile(w, r, fullName, arg)
	default:
		writeJSON(w, http.StatusNotFound, map[string]any{"error": "404 Not Found"})
	}
}

func (g *GitLab) shown(fullName, name string) map[string]any {
	sha, message, ok := g.commit(fullName, name)
	if !ok {
		return nil
	}
	return map[string]any{"id": sha, "short_id": sha[:8], "message": message}
}

// serveRefs answers with one ref, or a page of them. The next page begins after a name.
func (g *GitLab) serveRefs(w http.ResponseWriter, r *http.Request, fullName, prefix, name string) {
	shape := func(one ref) map[string]any {
		return map[string]any{"name": one.name, "target": one.sha, "commit": g.shown(fullName, one.sha)}
	}
	all := g.refs(fullName, prefix)
	if name != "" {
		i := slices.IndexFunc(all, func(one ref) bool { return one.name == name })
		if i < 0 {
			notFound(w, "Branch")
			return
		}
		writeJSON(w, http.StatusOK, shape(all[i]))
		return
	}
	if r.FormValue("pagination") != "keyset" {
		problem(w, http.StatusMethodNotAllowed, "the test wants a keyset")
		return
	}
	size := min(max(atoi(r.FormValue("per_page")), 1), 100)
	if after := r.FormValue("page_token"); after != "" {
		all = all[1+slices.IndexFunc(all, func(one ref) bool { return one.name == after }):]
	}
	if len(all) > size {
		all = all[:size]
		query := r.URL.Query()
		query.Set("page_token", all[size-1].name)
		w.Header().Set("Link", fmt.Sprintf(`<%s/x?%s>; rel="next", <%[1]s>; rel="first"`, g.Elsewhere.URL, query.Encode()))
	}
	out := []map[string]any{}
	for _, one := range all {
		out = append(out, shape(one))
	}
	writeJSON(w, http.StatusOK, out)
}

func (g *GitLab) serveArchive(w http.ResponseWriter, r *http.Request, fullName string) {
	sha, _, ok := g.commit(fullName, r.FormValue("sha"))
	if !ok {
		notFound(w, "File")
		return
	}
	if g.Redirect {
		http.Redirect(w, r, g.Elsewhere.URL+"/?"+url.Values{"repo": {fullName}, "sha": {sha}}.Encode(), http.StatusFound)
		return
	}
	g.archive(w, fullName, sha)
}

func (g *GitLab) serveFile(w http.ResponseWriter, r *http.Request, fullName, path string) {
	blob, ok := g.git(fullName, "rev-parse", "--verify", "--quiet", r.FormValue("ref")+":"+path)
	content, err := output(g.Repos.Bare(fullName), "cat-file", "blob", blob)
	if !ok || err != nil {
		notFound(w, "File")
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"file_path": path, "size": len(content), "encoding": "base64", "content": base64.StdEncoding.EncodeToString(content),
		"blob_id": blob,
	})
}

// takeCommit makes a branch with one commit of one changed file.
func (g *GitLab) takeCommit(w http.ResponseWriter, r *http.Request, fullName string) {
	var in struct {
		Branch  string
		Start   string `json:"start_sha"`
		Message string `json:"commit_message"`
		Actions []struct {
			Action, Encoding, Content string
			Path                      string `json:"file_path"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Actions) != 1 || in.Actions[0].Action != "update" ||
		in.Actions[0].Encoding != "base64" || in.Message == "" {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": "actions is missing"})
		return
	}
	change := in.Actions[0]
	content, err := base64.StdEncoding.DecodeString(change.Content)
	if _, ok := g.git(fullName, "rev-parse", "--verify", "--quiet", in.Start+":"+change.Path); !ok || err != nil {
		problem(w, http.StatusBadRequest, "A file with this name doesn't exist")
		return
	}
	if _, _, exists := g.commit(fullName, "refs/heads/"+in.Branch); exists {
		problem(w, http.StatusBadRequest, "A branch called '"+in.Branch+"' already exists.")
		return
	}
	tree := g.writeTree(fullName, in.Start, change.Path, string(content))
	sha := g.Repos.Git(fullName, "commit-tree", "-p", in.Start, "-m", in.Message, tree)
	g.Repos.Git(fullName, "update-ref", "refs/heads/"+in.Branch, sha)
	writeJSON(w, http.StatusCreated, g.shown(fullName, sha))
}

// takeStatus is as strict as the real one: it refuses a state that the status has while it
// is not over, and a commit of no branch without the name of a ref.
func (g *GitLab) takeStatus(w http.ResponseWriter, r *http.Request, fullName, sha string) {
	var in struct {
		State, Name, Description, Ref string
		TargetURL                     string `json:"target_url"`
	}
	err := json.NewDecoder(r.Body).Decode(&in)
	event := map[string]string{"pending": "enqueue", "running": "run", "success": "success", "failed": "drop", "canceled": "cancel"}[in.State]
	if err != nil || event == "" {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": "state does not have a valid value"})
		return
	}
	if len([]rune(in.Description)) > 255 {
		invalid(w, "description", "is too long (maximum is 255 characters)")
		return
	}
	if _, _, ok := g.commit(fullName, sha); !ok {
		notFound(w, "Commit")
		return
	}
	if on, _ := g.git(fullName, "branch", "--contains", sha); on == "" && in.Ref == "" {
		notFound(w, "References for commit")
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range slices.Backward(g.statuses) {
		if s.FullName != fullName || s.SHA != sha || s.Context != in.Name {
			continue
		}
		if s.Raw == "running" && event == "enqueue" || (s.Raw == "running" || s.Raw == "pending") && s.Raw == in.State {
			problem(w, http.StatusBadRequest, fmt.Sprintf("Cannot transition status via :%s from :%s (Reason(s): "+
				"Status cannot transition via %[1]q)", event, s.Raw))
			return
		}
		break
	}
	state := map[string]string{"running": "pending", "failed": "failure"}[in.State]
	if state == "" {
		state = in.State
	}
	g.statuses = append(g.statuses, PostedStatus{
		FullName: fullName, SHA: sha, State: state, Raw: in.State, Context: in.Name, Description: in.Description, TargetURL: in.TargetURL,
	})
	writeJSON(w, http.StatusCreated, map[string]any{"id": len(g.statuses), "status": in.State, "name": in.Name, "sha": sha})
}

// serveIssues has other names for the same fields.
func (g *GitLab) serveIssues(w http.ResponseWriter, r *http.Request, fullName, number string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	show := func(i PostedIssue) map[string]any {
		return map[string]any{
			"iid": i.Number, "title": i.Title, "description": i.Body, "state": i.State,
			"web_url": fmt.Sprintf("https://gitlab.example/%s/-/issues/%d", fullName, i.Number),
		}
	}
	if r.Method == http.MethodGet {
		open := []map[string]any{}
		for _, i := range g.issues {
			if i.FullName == fullName && i.State == "opened" {
				open = append(open, show(i))
			}
		}
		writeJSON(w, http.StatusOK, open)
		return
	}
	var in struct {
		Title, Description string
		Event              string `json:"state_event"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Title == "" {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": "title is missing"})
		return
	}
	at, status := atoi(number), http.StatusOK
	if r.Method == http.MethodPost {
		g.issues = append(g.issues, PostedIssue{FullName: fullName, Number: len(g.issues) + 1, State: "opened"})
		at, status = len(g.issues), http.StatusCreated
	}
	if at < 1 || at > len(g.issues) {
		notFound(w, "Issue")
		return
	}
	i := &g.issues[at-1]
	i.Title, i.Body = in.Title, in.Description
	switch in.Event {
	case "close":
		i.State = "closed"
	case "reopen":
		i.State = "opened"
	}
	writeJSON(w, status, show(*i))
}

// created is when the merge requests' first versions came to be, before all reviews.
var created = time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC)
