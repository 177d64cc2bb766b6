package hosttest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Gitea is a fake of the API of Gitea and Forgejo.
type Gitea struct {
	server
	// Token is the operator's, who sees everything.
	Token string
	// Tokens are those of users, by the token, who see what they own.
	Tokens map[string]string
	// Owners are the users that own an organisation, by its name.
	Owners map[string]string
}

// NewGitea starts a server for the repositories.
func NewGitea(tb testing.TB, repos *Repos) *Gitea {
	tb.Helper()
	g := &Gitea{Token: "sesame", Tokens: map[string]string{}, Owners: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/user", g.serveUser)
	mux.HandleFunc("GET /api/v1/users/{user}/orgs/{org}/permissions", g.servePermissions)
	mux.HandleFunc("GET /api/v1/user/repos", g.serveRepositories)
	mux.HandleFunc("/api/v1/repos/{owner}/{name}", g.serveRepo)
	mux.HandleFunc("/api/v1/repos/{owner}/{name}/{rest...}", g.serveRepo)
	g.start(tb, repos, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := tokenOf(r); token != g.Token && g.Tokens[token] == "" {
			problem(w, http.StatusUnauthorized, "invalid username, password or token")
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return g
}

func tokenOf(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "token ")
}

// sees reports whether the request's token may see what an account has.
func (g *Gitea) sees(r *http.Request, fullName string) bool {
	owner, _, _ := strings.Cut(fullName, "/")
	user := g.Tokens[tokenOf(r)]
	return tokenOf(r) == g.Token || user == owner || user == g.Owners[owner]
}

func (g *Gitea) serveUser(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"id": 1, "login": g.user(r)})
}

// user is whose token the request has.
func (g *Gitea) user(r *http.Request) string {
	if name := g.Tokens[tokenOf(r)]; name != "" {
		return name
	}
	return "operator"
}

func (g *Gitea) servePermissions(w http.ResponseWriter, r *http.Request) {
	owner, known := g.Owners[r.PathValue("org")]
	if !known {
		problem(w, http.StatusNotFound, "The target couldn't be found.")
		return
	}
	is := owner == r.PathValue("user")
	writeJSON(w, http.StatusOK, map[string]any{"can_read": true, "is_admin": is, "is_owner": is})
}

func (g *Gitea) repository(fullName string) map[string]any {
	owner, name, _ := strings.Cut(fullName, "/")
	return map[string]any{
		"id": g.ID(fullName), "full_name": fullName, "name": name, "owner": map[string]any{"login": owner, "id": 1},
		"default_branch": g.defaultBranch(fullName), "private": true, "empty": g.empty(fullName), "html_url": "https://gitea.example/" + fullName,
		"updated_at": g.lastPush(fullName),
	}
}

// serveRepositories shows what the token's owner can see, of all owners.
func (g *Gitea) serveRepositories(w http.ResponseWriter, r *http.Request) {
	out := []map[string]any{}
	seen := slices.DeleteFunc(g.names(), func(name string) bool { return !g.sees(r, name) })
	for _, name := range page(w, r, seen, "limit", 1) {
		out = append(out, g.repository(name))
	}
	writeJSON(w, http.StatusOK, out)
}

func (g *Gitea) serveRepo(w http.ResponseWriter, r *http.Request) {
	fullName := r.PathValue("owner") + "/" + r.PathValue("name")
	g.mu.Lock()
	to := g.moved[fullName]
	g.mu.Unlock()
	if to != "" {
		// Whatever the method: a client that follows repeats a POST as a GET.
		http.Redirect(w, r, strings.Replace(r.URL.RequestURI(), fullName, to, 1), http.StatusMovedPermanently)
		return
	}
	rest := r.PathValue("rest")
	what, arg, _ := strings.Cut(rest, "/")
	switch {
	case !g.exists(fullName) || !g.sees(r, fullName):
		problem(w, http.StatusNotFound, "The target couldn't be found.")
	case rest == "":
		writeJSON(w, http.StatusOK, g.repository(fullName))
	case what == "branches":
		g.serveRefs(w, r, g.refs(fullName, "refs/heads"), arg, "id")
	case what == "tags":
		g.serveRefs(w, r, g.refs(fullName, "refs/tags"), arg, "sha")
	case strings.HasPrefix(rest, "git/commits/"):
		g.serveCommit(w, fullName, strings.TrimPrefix(rest, "git/commits/"))
	case what == "commits" && strings.HasSuffix(arg, "/pull"):
		g.servePullOfCommit(w, fullName, strings.TrimSuffix(arg, "/pull"))
	case what == "archive":
		g.serveArchive(w, fullName, strings.TrimSuffix(arg, ".tar.gz"))
	case what == "pulls":
		g.servePulls(w, r, fullName, arg, "limit", 50, http.StatusConflict)
	case what == "contents":
		g.serveContents(w, r, fullName, arg)
	case isComment(rest):
		g.serveComments(w, r, fullName, arg, map[string]any{"login": g.user(r), "id": 1}, 1000) // in one page
	case what == "issues":
		g.serveIssues(w, r, fullName, arg)
	case what == "statuses" && r.Method == http.MethodPost:
		g.takeStatus(w, r, fullName, arg)
	default: // check-runs, too: there are none
		problem(w, http.StatusNotFound, "The target couldn't be found.")
	}
}

// serveRefs answers with one ref, or a page of them.
func (g *Gitea) serveRefs(w http.ResponseWriter, r *http.Request, refs []ref, name, key string) {
	shape := func(r ref) map[string]any {
		return map[string]any{"name": r.name, "commit": map[string]any{key: r.sha}}
	}
	if name == "" {
		out := []map[string]any{}
		for _, r := range page(w, r, refs, "limit", 50) {
			out = append(out, shape(r))
		}
		writeJSON(w, http.StatusOK, out)
		return
	}
	for _, r := range refs {
		if r.name == name {
			writeJSON(w, http.StatusOK, shape(r))
			return
		}
	}
	problem(w, http.StatusNotFound, "The target couldn't be found.")
}

func (g *Gitea) serveCommit(w http.ResponseWriter, fullName, name string) {
	sha, message, ok := g.commit(fullName, name)
	if !ok {
		problem(w, http.StatusNotFound, "The target couldn't be found.")
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"sha": sha, "commit": map[string]any{"message": message}})
}

func (g *Gitea) serveArchive(w http.ResponseWriter, fullName, name string) {
	sha, _, ok := g.commit(fullName, name)
	if !ok {
		problem(w, http.StatusNotFound, "The target couldn't be found.")
		return
	}
	g.archive(w, fullName, sha)
}

func (g *Gitea) takeStatus(w http.ResponseWriter, r *http.Request, fullName, sha string) {
	s := PostedStatus{FullName: fullName, SHA: sha}
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil || s.State == "" {
		problem(w, http.StatusUnprocessableEntity, "[]: Required")
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.statuses = append(g.statuses, s)
	writeJSON(w, http.StatusCreated, map[string]any{"id": len(g.statuses), "status": s.State, "context": s.Context})
}
