package signals_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/learn/signals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// world is the service as internal/app wires it.
type world struct {
	*apptest.World
	signals *signals.Service
}

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{World: apptest.NewWorld(t, db, apptest.Options{})}
	secret, err := w.Auth.Secret(t.Context(), "signals")
	if err != nil {
		t.Fatal(err)
	}
	findings := &proposals.Service{DB: db, Jobs: w.Queue}
	findings.Register()
	w.signals = &signals.Service{DB: db, Secret: secret, OnSignals: findings, OnOverview: findings}
	w.signals.Mount(w.API)
	return w
}

// org creates an organisation and returns its owner, with the key of a relay,
// which may name contributors.
func (w *world) org(t apptest.T) *client {
	t.Helper()
	owner := w.Org(uuid.NewString())
	return &client{w.WithKey(owner.Org, owner.User, auth.NewKey{Relay: true}).In(t), w}
}

// member adds a user to an organisation.
func (w *world) member(t apptest.T, o auth.Organisation, role access.Role) *client {
	t.Helper()
	return &client{w.Member(o, role).In(t), w}
}

// client calls the API with a key.
type client struct {
	*apptest.Caller
	w *world
}

// in returns the client for a subtest or a check.
func (c *client) in(t apptest.T) *client { return &client{c.In(t), c.w} }

// republish publishes all signals as if they had been sent at once.
func (c *client) republish() {
	c.T.Helper()
	if err := c.w.signals.Republish(c.T.Context(), c.Org.ID); err != nil {
		c.T.Fatalf("%v", err)
	}
}

type object = apptest.Object

const path = "/api/v1/signals"

func (c *client) get(path string) answer {
	c.T.Helper()
	return answer{c.Get(path)}
}

func (c *client) post(body any) answer {
	c.T.Helper()
	return answer{c.Post(path, body)}
}

// answer is a response without its time and the reasons of suppressed figures,
// which are only checked.
type answer struct{ apptest.Response }

func (a answer) want(status int) answer {
	a.T.Helper()
	return answer{a.Want(status)}
}

func (a answer) object() object {
	a.T.Helper()
	o := a.Object()
	if at, is := o["generated_at"].(string); is && !strings.HasSuffix(at, "Z") {
		a.T.Errorf("generated_at %q", at)
	}
	delete(o, "generated_at")
	if at, is := o["as_of"].(string); is && !strings.HasSuffix(at, "Z") {
		a.T.Errorf("as_of %q", at)
	}
	a.takeReasons(o)
	return o
}

// takeReasons checks that every suppressed figure has the reason, and removes it.
func (a answer) takeReasons(value any) {
	a.T.Helper()
	switch value := value.(type) {
	case []any:
		for _, inner := range value {
			a.takeReasons(inner)
		}
	case object:
		reason, _ := value["suppressed_reason"].(string)
		if withheld := value["suppressed"] == true; withheld != strings.Contains(reason, "people contributed to it") {
			a.T.Errorf("%s: suppressed %t with the reason %q", a.What, withheld, reason)
		}
		delete(value, "suppressed_reason")
		for _, inner := range value {
			a.takeReasons(inner)
		}
	}
}

// wantBody compares the body with Go values.
func (a answer) wantBody(want any) {
	a.T.Helper()
	got := a.object()
	delete(got, "as_of")
	if diff := cmp.Diff(apptest.Plain(a.T, want), any(got)); diff != "" {
		a.T.Errorf("%s (-want +got):\n%s", a.What, diff)
	}
}

// signal is one of a batch.
func signal(skill, kind, key string, confidence float64, cohort string) object {
	o := object{"skill_name": skill, "signal_type": kind, "source_key": key, "confidence": confidence}
	if cohort != "" {
		o["user_cohort"] = cohort
	}
	return o
}

func batch(signals ...object) object { return object{"signals": signals} }

// sessionBody returns the body of one session.
func sessionBody(skill, cohort, week string, says object) object {
	return object{
		"version": 1, "signal_type": "skill_session", "skill_name": skill, "relay_destination": uuid.NewString(),
		"skill_hash": "sk_sha256_2cf24dba5fb0", "user_cohort": cohort, "timestamp_bucket": week,
		"client_version": "1.2.3", "signals": says,
	}
}

// count counts the rows of a table that an organisation has.
func (c *client) count(table string) int {
	c.T.Helper()
	return c.w.Count(table+" WHERE org_id = $1", c.Org.ID)
}

func query(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return "?" + v.Encode()
}
