package hosttest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// GitHub is a fake of GitHub's API, for one App with an installation on the
// account acme, and others that Install adds.
type GitHub struct {
	server
	AppID        int64
	Installation int64
	Key          []byte // PEM
	key          *rsa.PrivateKey
	files        *httptest.Server // another origin, where tarballs are

	// The following are guarded by the lock.
	installed  map[string]string // account by number
	tokens     map[string]token
	life       time.Duration
	checks     []PostedCheck
	downloads  []string // Authorization headers that reached the tarballs
	tokensMade int
}

// A token of an installation.
type token struct {
	account string
	until   time.Time
}

// A PostedCheck is a check-run that the server accepted.
type PostedCheck struct {
	ID         int64  `json:"id"`
	FullName   string `json:"-"`
	Name       string `json:"name"`
	HeadSHA    string `json:"head_sha"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion"`
	ExternalID string `json:"external_id"`
	Output     struct {
		Title       string       `json:"title"`
		Summary     string       `json:"summary"`
		Annotations []Annotation `json:"annotations"`
	} `json:"output"`
	Requests int      `json:"-"` // that made it what it is
	History  []string `json:"-"` // the titles so far
}

// An Annotation of a check-run.
type Annotation struct {
	Path            string `json:"path"`
	StartLine       int    `json:"start_line"`
	EndLine         int    `json:"end_line"`
	AnnotationLevel string `json:"annotation_level"`
	Message         string `json:"message"`
	Title           string `json:"title"`
}

// appKey is shared by all servers of a process: to make one takes 0.1 s of processor time.
var appKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// NewGitHub starts a server for the repositories.
func NewGitHub(tb testing.TB, repos *Repos) *GitHub {
	tb.Helper()
	key, err := appKey()
	if err != nil {
		tb.Fatal(err)
	}
	g := &GitHub{
		AppID: 4711, Installation: 4_294_967_815, key: key, tokens: map[string]token{}, life: time.Hour,
		installed: map[string]string{"4294967815": "acme"},
		Key:       pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
	}
	g.files = httptest.NewServer(http.HandlerFunc(g.serveTarball))
	tb.Cleanup(g.files.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /app/installations/{id}", g.serveInstallation)
	mux.HandleFunc("POST /app/installations/{id}/access_tokens", g.serveToken)
	mux.HandleFunc("GET /installation/repositories", g.authorised(g.serveRepositories))
	mux.HandleFunc("/repositories/{id}/{rest...}", g.authorised(g.serveByID))
	mux.HandleFunc("/repositories/{id}", g.authorised(g.serveByID))
	mux.HandleFunc("/repos/{owner}/{name}", g.authorised(g.serveRepo))
	mux.HandleFunc("/repos/{owner}/{name}/{rest...}", g.authorised(g.serveRepo))
	g.start(tb, repos, mux)
	return g
}

// Install installs the App on one more account.
func (g *GitHub) Install(id int64, account string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.installed[fmt.Sprint(id)] = account
}

// TokenLife sets how long the tokens live that are made from now on.
func (g *GitHub) TokenLife(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.life = d
}

// RevokeTokens makes all tokens invalid.
func (g *GitHub) RevokeTokens() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.tokens)
}

// TokensMade counts the tokens so far.
func (g *GitHub) TokensMade() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tokensMade
}

// Checks are the check-runs so far.
func (g *GitHub) Checks() []PostedCheck {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.checks)
}

// Downloads are the Authorization headers that the tarballs were asked with.
func (g *GitHub) Downloads() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.downloads)
}

// installation finds the account of an installation for a request that the App
// has signed, or answers the request.
func (g *GitHub) installation(w http.ResponseWriter, r *http.Request) (account string, ok bool) {
	if err := g.checkJWT(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")); err != nil {
		problem(w, http.StatusUnauthorized, err.Error())
		return "", false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if account, ok = g.installed[r.PathValue("id")]; !ok {
		problem(w, http.StatusNotFound, "Not Found")
	}
	return account, ok
}

func (g *GitHub) serveInstallation(w http.ResponseWriter, r *http.Request) {
	if account, ok := g.installation(w, r); ok {
		writeJSON(w, http.StatusOK, map[string]any{"id": atoi(r.PathValue("id")), "account": map[string]any{"login": account}})
	}
}

// serveToken checks the App's JWT the way GitHub does.
func (g *GitHub) serveToken(w http.ResponseWriter, r *http.Request) {
	account, ok := g.installation(w, r)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tokensMade++
	name := fmt.Sprintf("ghs_%d", g.tokensMade)
	until := time.Now().Add(g.life)
	g.tokens[name] = token{account, until}
	writeJSON(w, http.StatusCreated, map[string]any{"token": name, "expires_at": until.UTC().Format(time.RFC3339)})
}

func (g *GitHub) checkJWT(raw string) error {
	last := max(strings.LastIndexByte(raw, '.'), 0)
	signed := raw[:last]
	mac, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(raw[last:], "."))
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(signed))
	if err := rsa.VerifyPKCS1v15(&g.key.PublicKey, crypto.SHA256, sum[:], mac); err != nil {
		return err
	}
	_, body, _ := strings.Cut(signed, ".")
	claims, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return err
	}
	var c struct {
		Issuer   string `json:"iss"`
		IssuedAt int64  `json:"iat"`
		Expires  int64  `json:"exp"`
	}
	if err := json.Unmarshal(claims, &c); err != nil {
		return err
	}
	now := time.Now().Unix()
	if c.Issuer != fmt.Sprint(g.AppID) || c.IssuedAt > now || c.Expires < now || c.Expires > now+600 {
		return fmt.Errorf("claims %+v are not valid", c)
	}
	return nil
}

func (g *GitHub) authorised(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if t := g.token(r); t.account == "" || time.Now().After(t.until) {
			problem(w, http.StatusUnauthorized, "Bad credentials")
			return
		}
		next(w, r)
	}
}

func (g *GitHub) token(r *http.Request) token {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
}

func (g *GitHub) repository(fullName string) map[string]any {
	owner, name, _ := strings.Cut(fullName, "/")
	return map[string]any{
		"id": g.ID(fullName), "full_name": fullName, "name": name, "owner": map[string]any{"login": owner},
		"default_branch": g.defaultBranch(fullName), "private": true, "visibility": "private", "html_url": "https://github.example/" + fullName,
		"pushed_at": g.lastPush(fullName),
	}
}

func (g *GitHub) serveRepositories(w http.ResponseWriter, r *http.Request) {
	var all []map[string]any
	for _, name := range g.names() {
		if strings.HasPrefix(name, g.token(r).account+"/") {
			all = append(all, g.repository(name))
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"total_count": len(all), "repositories": page(w, r, all, "per_page", 1)})
}

// serveByID is where requests for a renamed repository are sent.
func (g *GitHub) serveByID(w http.ResponseWriter, r *http.Request) {
	for _, name := range g.names() {
		if fmt.Sprint(g.ID(name)) == r.PathValue("id") {
			g.serve(w, r, name, r.PathValue("rest"))
			return
		}
	}
	problem(w, http.StatusNotFound, "Not Found")
}

func (g *GitHub) serveRepo(w http.ResponseWriter, r *http.Request) {
	fullName := r.PathValue("owner") + "/" + r.PathValue("name")
	g.mu.Lock()
	to := g.moved[fullName]
	g.mu.Unlock()
	if to != "" {
		target := fmt.Sprintf("%s/repositories/%d", g.URL, g.ID(to))
		if rest := r.PathValue("rest"); rest != "" {
			target += "/" + rest
		}
		status := http.StatusMovedPermanently
		if r.Method != http.MethodGet {
			status = http.StatusTemporaryRedirect
		}
		http.Redirect(w, r, target+"?"+r.URL.RawQuery, status)
		return
	}
	g.serve(w, r, fullName, r.PathValue("rest"))
}

func (g *GitHub) serve(w http.ResponseWriter, r *http.Request, fullName, rest string) {
	what, arg, _ := strings.Cut(rest, "/")
	switch {
	case !g.exists(fullName) || !strings.HasPrefix(fullName, g.token(r).account+"/"): // all are private
		problem(w, http.StatusNotFound, "Not Found")
	case rest == "":
		writeJSON(w, http.StatusOK, g.repository(fullName))
	case what == "commits" && strings.HasSuffix(arg, "/check-runs"):
		g.serveChecks(w, r, fullName, strings.TrimSuffix(arg, "/check-runs"))
	case what == "commits" && strings.HasSuffix(arg, "/pulls"):
		g.servePullsOfCommit(w, r, fullName, strings.TrimSuffix(arg, "/pulls"))
	case what == "compare":
		g.serveCompare(w, fullName, arg)
	case what == "commits":
		g.serveCommit(w, fullName, arg)
	case what == "pulls":
		g.servePulls(w, r, fullName, arg, "per_page", 100, http.StatusUnprocessableEntity)
	case what == "contents" && r.Method == http.MethodGet:
		g.serveContents(w, r, fullName, arg)
	case what == "git":
		g.serveGit(w, r, fullName, arg)
	case isComment(rest):
		g.serveComments(w, r, fullName, arg, map[string]any{"login": "whetstone[bot]", "type": "Bot"}, 100)
	case what == "branches":
		g.serveRefs(w, r, g.refs(fullName, "refs/heads"))
	case what == "tags":
		g.serveRefs(w, r, g.refs(fullName, "refs/tags"))
	case what == "tarball":
		g.redirectTarball(w, r, fullName, arg)
	case what == "statuses" && r.Method == http.MethodPost:
		g.takeStatus(w, r, fullName, arg)
	case what == "issues":
		g.serveIssues(w, r, fullName, arg)
	case what == "check-runs" && r.Method == http.MethodPost:
		g.takeCheck(w, r, fullName)
	case what == "check-runs" && r.Method == http.MethodPatch:
		g.patchCheck(w, r, arg)
	default:
		problem(w, http.StatusNotFound, "Not Found")
	}
}

func (g *GitHub) serveCommit(w http.ResponseWriter, fullName, name string) {
	if g.empty(fullName) {
		problem(w, http.StatusConflict, "Git Repository is empty.")
		return
	}
	full := name
	if strings.HasPrefix(name, "heads/") || strings.HasPrefix(name, "tags/") {
		full = "refs/" + name
	}
	sha, message, ok := g.commit(fullName, full)
	if !ok {
		problem(w, http.StatusUnprocessableEntity, "No commit found for SHA: "+name)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"sha": sha, "commit": map[string]any{"message": message}})
}

func (g *GitHub) serveRefs(w http.ResponseWriter, r *http.Request, refs []ref) {
	out := []map[string]any{}
	for _, ref := range page(w, r, refs, "per_page", 100) {
		out = append(out, map[string]any{"name": ref.name, "commit": map[string]any{"sha": ref.sha}})
	}
	writeJSON(w, http.StatusOK, out)
}

func (g *GitHub) redirectTarball(w http.ResponseWriter, r *http.Request, fullName, name string) {
	sha, _, ok := g.commit(fullName, name)
	if !ok {
		problem(w, http.StatusNotFound, "Not Found")
		return
	}
	query := url.Values{"repo": {fullName}, "sha": {sha}, "token": {"temporary"}}
	http.Redirect(w, r, g.files.URL+"/tarball?"+query.Encode(), http.StatusFound)
}

// serveTarball is on another origin: the token must not be sent there.
func (g *GitHub) serveTarball(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.downloads = append(g.downloads, r.Header.Get("Authorization"))
	g.mu.Unlock()
	if f, broken := g.fault(r); broken {
		f(w, r)
		return
	}
	g.archive(w, r.FormValue("repo"), r.FormValue("sha"))
}

func (g *GitHub) takeStatus(w http.ResponseWriter, r *http.Request, fullName, sha string) {
	s := PostedStatus{FullName: fullName, SHA: sha}
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil || len([]rune(s.Description)) > 140 {
		problem(w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.statuses = append(g.statuses, s)
	writeJSON(w, http.StatusCreated, s)
}

func (g *GitHub) takeCheck(w http.ResponseWriter, r *http.Request, fullName string) {
	c := PostedCheck{FullName: fullName, Requests: 1}
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil || c.Name == "" || c.HeadSHA == "" || !fits(c) ||
		c.Status == "completed" && c.Conclusion == "" {
		problem(w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	c.ID, c.History = int64(9_000_000_000+len(g.checks)), []string{c.Output.Title}
	g.checks = append(g.checks, c)
	writeJSON(w, http.StatusCreated, c)
}

func fits(c PostedCheck) bool {
	return len(c.Output.Annotations) <= 50 && len(c.Output.Summary) <= 65_535 && c.Output.Title != "" && c.Output.Summary != ""
}

// patchCheck changes what a check-run says and adds annotations, as GitHub does.
func (g *GitHub) patchCheck(w http.ResponseWriter, r *http.Request, id string) {
	var c PostedCheck
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil || !fits(c) {
		problem(w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.checks, func(c PostedCheck) bool { return fmt.Sprint(c.ID) == id })
	if i < 0 {
		problem(w, http.StatusNotFound, "Not Found")
		return
	}
	if c.Status == "completed" && c.Conclusion == "" {
		problem(w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	old := &g.checks[i]
	old.Requests++
	if c.Status != "" {
		old.Status, old.Conclusion = c.Status, c.Conclusion
	}
	old.Output.Title, old.Output.Summary = c.Output.Title, c.Output.Summary
	old.Output.Annotations = append(old.Output.Annotations, c.Output.Annotations...)
	old.History = append(old.History, old.Output.Title)
	writeJSON(w, http.StatusOK, old)
}

// serveChecks lists the check-runs of a commit with a name.
func (g *GitHub) serveChecks(w http.ResponseWriter, r *http.Request, fullName, sha string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := []map[string]any{}
	for _, c := range g.checks {
		if c.FullName == fullName && c.HeadSHA == sha && c.Name == r.FormValue("check_name") {
			found = append(found, map[string]any{
				"id": c.ID, "name": c.Name, "external_id": c.ExternalID,
				"output": map[string]any{"annotations_count": len(c.Output.Annotations)},
			})
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"total_count": len(found), "check_runs": found})
}
