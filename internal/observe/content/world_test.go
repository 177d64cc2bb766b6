package content_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/observe/content"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

const retention = 90 * 24 * time.Hour

type object = apptest.Object

type world struct {
	*apptest.World
	content *content.Service
	quota   *quota.Service
}

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{World: apptest.NewWorld(t, db, apptest.Options{})}
	w.quota = &quota.Service{DB: db, Limits: quota.DefaultLimits(), Counts: []quota.Count{content.Stored()}}
	w.content = &content.Service{DB: db, Jobs: w.Queue, Seal: sealtest.Keyring(), Quota: w.quota, Retention: retention}
	w.content.Mount(w.API)
	return w
}

// rekeyed is the service with other keys.
func (w *world) rekeyed(keys string) *content.Service {
	w.T.Helper()
	keyring, err := seal.New(keys)
	if err != nil {
		w.T.Fatal(err)
	}
	s := *w.content
	s.Seal = keyring
	return &s
}

// enable switches the keeping of content on or off.
func (w *world) enable(owner *apptest.Caller, on bool) {
	w.T.Helper()
	owner.Do(http.MethodPut, "/api/v1/settings/content", object{"enabled": on}).Want(http.StatusOK)
}

func callerOf(c *apptest.Caller) access.Caller {
	return access.Caller{OrgID: c.Org.ID, OrgName: c.Org.Name, UserID: c.User.ID, Role: c.User.Role, Permissions: c.User.Role.Permissions()}
}

// keep keeps texts of a user's sessions and returns how many there are.
func (w *world) keep(c *apptest.Caller, texts ...content.Text) (kept int) {
	w.T.Helper()
	err := w.DB.InTx(w.T.Context(), func(tx *store.Tx) (err error) {
		kept, _, err = w.content.Keep(w.T.Context(), tx, callerOf(c), texts)
		return err
	})
	if err != nil {
		w.T.Fatal(err)
	}
	w.wantCounts()
	return kept
}

// wantCounts compares the figures of sessions and of the quota with a recount.
func (w *world) wantCounts() {
	w.T.Helper()
	wrong := w.Count(`(
		SELECT id FROM (
			SELECT id, texts, bytes, stored FROM evidence_sessions
			UNION ALL SELECT session_id, -COUNT(*), -SUM(bytes), -SUM(stored) FROM evidence_texts GROUP BY session_id
		) AS recount GROUP BY id HAVING SUM(texts) <> 0 OR SUM(bytes) <> 0 OR SUM(stored) <> 0) AS wrong`)
	if wrong > 0 {
		w.T.Errorf("%d sessions have wrong figures", wrong)
	}
	findings, err := w.quota.Check(w.T.Context(), w.DB)
	if err != nil || len(findings) != 1 || findings[0].Status != "ok" {
		w.T.Errorf("quota: %v, %v", findings, err)
	}
}

// said is a text of a user.
func said(session, event, words string) content.Text {
	return content.NewText(session, event, content.Message{Role: content.User, At: noon, Text: words})
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// sessionOf is a user's session.
func sessionOf(c *apptest.Caller, name string) sessions.Session {
	return sessions.Session{ID: skills.SessionHash(c.User.ID, name), OrgID: c.Org.ID, UserID: c.User.ID, SessionID: name}
}

// texts reads events of a session as a caller.
func (w *world) texts(as *apptest.Caller, one sessions.Session, events ...string) map[string]string {
	w.T.Helper()
	got, err := w.content.Texts(w.T.Context(), callerOf(as), one, events)
	if err != nil {
		w.T.Fatal(err)
	}
	return got
}
