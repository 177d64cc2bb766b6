package app_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/proposals"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/store"
)

type object = map[string]any

// house is a service with an organisation whose every setting gets changed,
// and a stranger.
type house struct {
	*service
	t        *testing.T
	flags    []string
	db       *store.DB
	orgID    string
	stranger string // the key of another organisation's owner
	viewer   string // the key of the organisation's own viewer
	hook     *httptest.Server
	repos    *hosttest.Repos
	ids      map[string]string // of what the steps have made
}

const (
	hookSecret   = "planted-webhook-secret"
	plantedPath  = "/planted-target"
	alertSecret  = "whsec_cGxhbnRlZC1zaWduaW5nLXNlY3JldC0wMQ=="
	plantedEmail = "planted-mailbox@example.org"
)

func newHouse(t *testing.T, flags []string, set ...func(*app.Options)) *house {
	t.Helper()
	h := &house{t: t, flags: flags, repos: hosttest.NewRepos(t), ids: map[string]string{"suggestion": uuid.NewString()}}
	h.hook = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(h.hook.Close)
	h.repos.Create("acme/deploy").Push("first", map[string]string{"SKILL.md": hosttest.Skill("deploy", "Ships.")})
	c := settings(t, append(flags, "--roles", "web", "--allow-private-targets", "--repohost-url", h.repos.Dir, "--repohost-webhook-secret", hookSecret)...)
	h.service = start(t, c, set...)
	var err error
	if h.db, err = store.Open(t.Context(), store.Options{URL: c.URL(), MaxConns: 2}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.db.Close() })
	people := &auth.Service{DB: h.db, Log: slog.New(slog.DiscardHandler)}
	other, err := people.CreateOrg(t.Context(), "other", access.Team)
	if err != nil {
		t.Fatal(err)
	}
	own, err := people.OrgByName(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	h.orgID = own.ID
	h.stranger = h.issue(people, other.ID, access.Owner)
	h.viewer = h.issue(people, own.ID, access.Viewer)
	return h
}

func (h *house) issue(people *auth.Service, orgID string, role access.Role) string {
	h.t.Helper()
	_, _, raw, err := people.IssueKey(h.t.Context(), auth.Holder{Role: role}, auth.NewKey{OrgID: orgID, Name: string(role)})
	if err != nil {
		h.t.Fatal(err)
	}
	return raw
}

// answer is what a call got.
type answer struct {
	status    int
	requestID string
	header    http.Header
	body      object
	raw       string
}

// at is the text at a path of the body.
func (a answer) at(path ...string) string {
	value := any(a.body)
	for _, name := range path {
		inner, _ := value.(object)
		value = inner[name]
	}
	text, _ := value.(string)
	return text
}

func (h *house) json(method, path, key string, body any) answer {
	h.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.send(method, path, key, http.Header{"Content-Type": {"application/json"}}, raw)
}

func (h *house) send(method, path, key string, header http.Header, body []byte) answer {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, bytes.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header = header
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	a := answer{status: res.StatusCode, requestID: res.Header.Get("X-Request-Id"), header: res.Header, raw: string(raw)}
	_ = json.Unmarshal(raw, &a.body) // not every answer is an object
	return a
}

// form sends a multipart form with one file.
func (h *house) form(path, key string, fields map[string]string, name, filename string, content []byte) answer {
	h.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for field, value := range fields {
		_ = form.WriteField(field, value)
	}
	part, _ := form.CreateFormFile(name, filename)
	_, _ = part.Write(content)
	_ = form.Close()
	return h.send(http.MethodPost, path, key, http.Header{"Content-Type": {form.FormDataContentType()}}, body.Bytes())
}

func (h *house) archive(text string) []byte {
	h.t.Helper()
	var b bytes.Buffer
	folder := fstest.MapFS{"SKILL.md": &fstest.MapFile{Data: []byte(hosttest.Skill("deploy", text)), Mode: 0o644}}
	if _, err := skillpkg.Pack(h.t.Context(), folder, &b, skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: skillpkg.DefaultLimits()}); err != nil {
		h.t.Fatal(err)
	}
	return b.Bytes()
}

// publish pushes a version to the entry, or makes the entry.
func (h *house) publish(path, key, version string) answer {
	h.t.Helper()
	meta := `{"name":"deploy","version":"` + version + `","visibility":"org"}`
	return h.form(path, key, map[string]string{"metadata": meta}, "archive", "skill.tar.gz", h.archive(version))
}

// deliver sends a push as the code host does.
func (h *house) deliver() {
	h.t.Helper()
	const body = `{"ref":"refs/heads/main","repository":{"full_name":"acme/deploy"},"installation":{"id":7}}`
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write([]byte(body))
	a := h.send(http.MethodPost, "/api/v1/repohost/webhook", "", http.Header{
		"Content-Type": {"application/json"}, "X-Github-Event": {"push"}, "X-Github-Delivery": {uuid.NewString()},
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
	}, []byte(body))
	if a.status != http.StatusAccepted {
		h.t.Fatalf("deliver: %d %s", a.status, a.raw)
	}
	listed := h.json("GET", "/api/v1/repohost/deliveries", h.FirstKey, nil)
	var out struct{ Deliveries []struct{ ID string } }
	if err := json.Unmarshal([]byte(listed.raw), &out); err != nil || len(out.Deliveries) == 0 {
		h.t.Fatalf("deliveries: %s, %v", listed.raw, err)
	}
	h.ids["delivery"] = out.Deliveries[0].ID
}

// propose makes a proposal to decide on.
func (h *house) propose() {
	h.t.Helper()
	err := h.db.InTx(h.t.Context(), func(tx *store.Tx) (err error) {
		h.ids["proposal"], err = (&proposals.Service{DB: h.db}).Propose(h.t.Context(), tx, proposals.Draft{
			OrgID: h.orgID, SkillName: "deploy", Finding: "missed", Type: proposals.Description, Reason: "It is missed.", Evidence: object{}, ProposedBy: "signals",
		})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// fill puts the ids of what was made into a path: {alert} is the alert's.
func (h *house) fill(path string) string {
	for name, id := range h.ids {
		path = strings.ReplaceAll(path, "{"+name+"}", id)
	}
	return path
}
