package app_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/claims"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
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
	if err := claims.Allow(t.Context(), people.DB, own.ID, "acme", false); err != nil {
		t.Fatal(err)
	}
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

// pushGroup lets an identity provider push a group.
func (h *house) pushGroup() {
	h.t.Helper()
	token := h.as(h.FirstKey).Post("/api/v1/scim-tokens", object{"name": "entra"}).Want(http.StatusCreated).Text("token")
	h.ids["scim_group"] = h.as(token).Post("/scim/v2/Groups", object{"displayName": "Engineering"}).Want(http.StatusCreated).Text("id")
}

// join lets a person in, and returns their id and key.
func (h *house) join(email, role string) (id, key string) {
	h.t.Helper()
	made := h.as(h.FirstKey).Post("/api/v1/invitations", object{"role": role}).Want(http.StatusCreated)
	joined := h.as("").Post("/api/v1/invitations/accept", object{"token": made.Text("token"), "email": email}).Want(http.StatusCreated)
	return joined.Text("member", "user_id"), joined.Text("api_key")
}

// transfer hands the ownership over, and gets it back.
func (h *house) transfer(path, key string) apptest.Response {
	h.t.Helper()
	a := h.as(key).Do(http.MethodPost, path, nil)
	if a.Status == http.StatusOK {
		back := "/api/v1/members/" + a.Text("former_owner", "user_id")
		h.as(h.ids["member's key"]).Do(http.MethodPatch, back, object{"role": "owner"}).Want(http.StatusOK)
	}
	return a
}

// as returns the caller with a key; "" is none.
func (h *house) as(key string) *apptest.Caller { return h.service.as(h.t, key) }

// form sends a multipart form with one file.
func (h *house) form(path, key string, fields map[string]string, file apptest.Part) apptest.Response {
	h.t.Helper()
	var parts []apptest.Part
	for name, value := range fields {
		parts = append(parts, apptest.Part{Name: name, Content: []byte(value)})
	}
	return h.as(key).Upload(path, append(parts, file)...)
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
func (h *house) publish(path, key, version string) apptest.Response {
	h.t.Helper()
	meta := `{"name":"deploy","version":"` + version + `","visibility":"org"}`
	return h.form(path, key, map[string]string{"metadata": meta}, apptest.Part{Name: "archive", File: "skill.tar.gz", Content: h.archive(version)})
}

// hold pushes a version that its gate holds.
func (h *house) hold(version string) {
	h.t.Helper()
	answer := h.publish(h.fill("/api/v1/registry/{entry}/versions"), h.FirstKey, version).Want(http.StatusAccepted)
	h.ids["gate"] = answer.Text("gate", "id")
}

// askPeople pushes a version that waits for an approval.
func (h *house) askPeople(version string) {
	h.t.Helper()
	h.as(h.FirstKey).Do("PUT", h.fill("/api/v1/registry/{entry}/gate-policy"), object{"mode": "off", "approvals": 1}).Want(http.StatusOK)
	h.publish(h.fill("/api/v1/registry/{entry}/versions"), h.FirstKey, version).Want(http.StatusAccepted)
}

// deliver sends a push as the code host does.
func (h *house) deliver() {
	h.t.Helper()
	const body = `{"ref":"refs/heads/main","repository":{"full_name":"acme/deploy"},"installation":{"id":7}}`
	h.as("").Do("POST", "/api/v1/repohost/webhook", body, host.EventHeader+": push", host.DeliveryHeader+": "+uuid.NewString(),
		host.SignatureHeader+": "+host.Sign(hookSecret, []byte(body))).Want(http.StatusAccepted)
	listed := h.as(h.FirstKey).Get("/api/v1/repohost/deliveries")
	var out struct{ Deliveries []struct{ ID string } }
	if listed.Into(&out); len(out.Deliveries) == 0 {
		h.t.Fatalf("deliveries: %s", listed.Body)
	}
	h.ids["delivery"] = out.Deliveries[0].ID
}

// useSkill reports a session to grade.
func (h *house) useSkill() {
	h.t.Helper()
	at := time.Now().UTC().Format(time.RFC3339)
	h.as(h.FirstKey).Post("/api/v1/push", object{"schema_version": "2.0", "canonical": object{"skill_invocations": []object{{
		"skill_invocation_id": "i", "session_id": "s1", "occurred_at": at, "skill_name": "deploy", "triggered": true,
	}}}}).Want(http.StatusCreated)
}

// linkSkill links the source to the skill of the session.
func (h *house) linkSkill() {
	h.t.Helper()
	api := h.as(h.FirstKey)
	skill := api.Get("/v1/skills/deploy").Want(http.StatusOK).Field("skill")
	api.Do(http.MethodPatch, "/api/v1/cloud-sources/"+h.ids["source"], object{"skill_id": skill["skill_id"]}).Want(http.StatusOK)
}

// draft accepts a suggestion without a suite.
func (h *house) draft() {
	h.t.Helper()
	h.as(h.FirstKey).Post("/api/v1/cloud-sources/"+h.ids["source"]+"/eval-suggestions/review", object{
		"suggestion_id": uuid.NewString(), "review_status": "accepted", "query": "ship all of it", "should_trigger": true,
		"source": "linked_telemetry", "provenance": "missed_query",
	}).Want(http.StatusOK)
}

// propose makes a proposal to decide on.
func (h *house) propose() {
	h.t.Helper()
	value := "Deploys. Use it also for search."
	err := h.db.InTx(h.t.Context(), func(tx *store.Tx) (err error) {
		h.ids["proposal"], err = (&proposals.Service{DB: h.db}).Propose(h.t.Context(), tx, proposals.Draft{
			OrgID: h.orgID, SkillName: "deploy", Finding: "missed", Type: proposals.Description, ProposedValue: &value, Reason: "It is missed.",
			Evidence: object{}, ProposedBy: proposals.Contributors,
		})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// writeProposal gives the proposal a value.
func (h *house) writeProposal() {
	h.t.Helper()
	path := "/api/v1/proposals/" + h.ids["proposal"]
	h.as(h.FirstKey).Do(http.MethodPatch, path, object{"proposed_value": "Deploys. Use it also for search."}).Want(http.StatusOK)
}

// fill puts the ids of what was made into a path: {alert} is the alert's.
func (h *house) fill(path string) string {
	for name, id := range h.ids {
		path = strings.ReplaceAll(path, "{"+name+"}", id)
	}
	return path
}
