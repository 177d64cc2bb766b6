package app_test

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/tokens"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/claims"
)

// A matrix is two organisations that have everything, and a service that
// answers and does nothing else.
type matrix struct {
	*testing.T
	service *service
	client  *apptest.Client
	// ours is the one that others want to look into.
	ours, theirs *filled
	unknown      apptest.Things
	keys         map[string]string   // raw, by who has them
	columns      map[string][]string // of all tables that stay as they are
	last         []string            // what the database held
	names        map[string]bool     // of callers
	cells        int
}

// filled is an organisation that has everything.
type filled struct {
	*apptest.Org
	OrgID string
}

const (
	webhookSecret                      = "the secret of the code host"
	ourMark, theirMark                 = "zebra7f3a", "otter"
	ourInstallation, theirInstallation = 4711, 4712
)

// newMatrix fills two organisations while jobs run, and then serves them
// without jobs: only requests change anything.
func newMatrix(t *testing.T, flags []string, kind host.Provider) *matrix {
	t.Helper()
	more, repos := codeHost(t, kind)
	flags = slices.Concat(flags, more, []string{"--repohost-webhook-secret", webhookSecret})
	c := settings(t, append(flags, "--alert-interval", "1s")...)
	if repos == nil {
		repos = hosttest.At(t, filepath.Join(c.Data, "repos"))
	}
	s := start(t, c)
	m := &matrix{T: t, service: s, client: apptest.NewClient(t, s.url), keys: map[string]string{}, names: map[string]bool{}}
	m.columns = m.stableColumns()
	m.client.Check = s.documentedAnswers(t)
	filler := &apptest.Filler{
		Client: m.client, Routes: s.Routes(), Secret: webhookSecret, Provider: host.Provider(c.Repohost), Repos: repos,
	}
	m.ours = m.fill(filler, ourMark, "", ourInstallation)
	m.theirs = m.fill(filler, theirMark, "other ", theirInstallation)
	m.badKeys()
	m.unknown = unknownThings(m.ours.Things)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	c = settings(t, append(flags, "--roles", "web")...)
	m.service = start(t, c)
	m.client.URL = m.service.url
	return m
}

// fill makes an organisation with people of every role and fills it.
func (m *matrix) fill(filler *apptest.Filler, mark, prefix string, installation int) *filled {
	m.Helper()
	org, err := m.service.Auth().CreateOrg(m.Context(), mark+" Ltd", access.Enterprise)
	if err != nil {
		m.Fatal(err)
	}
	for _, role := range access.Roles() {
		m.keys[prefix+string(role)], _ = m.key(org, string(role), role)
	}
	// The server has several organisations, so the operator assigns their accounts.
	if err := claims.Allow(m.Context(), m.service.Auth().DB, org.ID, mark, false); err != nil {
		m.Fatal(err)
	}
	filling, _ := m.key(org, "filler", access.Owner)
	m.keys[prefix+"filler"] = filling
	return &filled{filler.Fill(m, filling, mark, installation), org.ID}
}

// key makes a person with a key.
func (m *matrix) key(org auth.Organisation, name string, role access.Role, permissions ...access.Permission) (raw, id string) {
	m.Helper()
	email := fmt.Sprintf("%s@%s.example", name, strings.Fields(org.Name)[0])
	_, k, raw, err := m.service.Auth().IssueKey(m.Context(), auth.Holder{Email: email, Role: role}, auth.NewKey{OrgID: org.ID, Name: org.Name, Permissions: permissions})
	if err != nil {
		m.Fatal(err)
	}
	return raw, k.ID
}

// badKeys are keys of our organisation that are not good, or not for much.
func (m *matrix) badKeys() {
	m.Helper()
	org := auth.Organisation{ID: m.ours.OrgID, Name: m.ours.Mark + " Ltd"}
	var id string
	for name, may := range narrowKeys {
		m.keys[name], _ = m.key(org, "owner", access.Owner, may...)
	}
	m.keys["revoked"], id = m.key(org, "owner", access.Owner)
	if err := m.service.Auth().RevokeKey(m.Context(), org.ID, id); err != nil {
		m.Fatal(err)
	}
	opened := &tokens.Service{Kind: tokens.Catalog, DB: m.service.DB()}
	var err error
	if _, m.keys["catalog token"], err = opened.Create(m.Context(), access.Caller{OrgID: org.ID, UserID: m.ours.Things["user"]}, "matrix", nil); err != nil {
		m.Fatal(err)
	}
	m.scimTokens()
	m.entryKey(org)
	m.keys["expired"], id = m.key(org, "owner", access.Owner)
	if _, err := m.service.DB().Exec(m.Context(), `UPDATE api_keys SET expires_at = 1 WHERE id = $1`, id); err != nil {
		m.Fatal(err)
	}
}

// entryKey makes the key of a workflow run that publishes our entry.
func (m *matrix) entryKey(org auth.Organisation) {
	m.Helper()
	err := m.service.DB().InTx(m.Context(), func(tx *store.Tx) error {
		k, raw, err := m.service.Auth().CreateEntryKey(m.Context(), tx, auth.NewEntryKey{
			OrgID: org.ID, EntryID: m.ours.Things["entry"], Name: "run", ExpiresAt: time.Now().Add(time.Hour),
		})
		if err != nil {
			return err
		}
		m.keys["entry"] = raw
		_, err = tx.Exec(m.Context(), `
			INSERT INTO trusted_exchanges (token, org_id, publisher_id, key_id, run, expires_at)
			VALUES ($1, $2, 'p', $3, '{"repository":"acme/skills"}', $4)`, k.ID, org.ID, k.ID, store.Micros(time.Now().Add(time.Hour)))
		return err
	})
	if err != nil {
		m.Fatal(err)
	}
}

// unknownThings are of the same form and nobody's.
func unknownThings(known apptest.Things) apptest.Things {
	unknown := apptest.Things{}
	for kind, value := range known {
		switch bare := strings.TrimPrefix(value, "src_"); {
		case uuid.Validate(bare) == nil:
			unknown[kind] = strings.TrimSuffix(value, bare) + uuid.NewString()
		case kind == "installation":
			unknown[kind] = "999999"
		case kind == "repository":
			unknown[kind] = "otter/none"
		case kind == "archive":
			unknown[kind] = value
		default:
			unknown[kind] = "nobody-has-this"
		}
	}
	return unknown
}

// setPlan puts our organisation on a plan.
func (m *matrix) setPlan(plan access.Plan) {
	m.Helper()
	if _, err := m.service.Auth().SetPlan(m.Context(), m.ours.Mark+" Ltd", plan); err != nil {
		m.Fatal(err)
	}
}

// make makes a thing of ours that will be used up, whatever the plan is.
func (m *matrix) make(kind string) string {
	m.Helper()
	before, err := m.service.Auth().OrgByName(m.Context(), m.ours.Mark+" Ltd")
	if err != nil {
		m.Fatal(err)
	}
	if kind == "key" { // of somebody whom an admin is not below
		_, id := m.key(before, "spent", access.Viewer)
		return id
	}
	m.setPlan(access.Enterprise)
	id := m.ours.Make(kind)
	m.setPlan(before.Plan)
	return id
}

func (m *matrix) ask(r httpapi.Route, req apptest.Request, header http.Header) apptest.Answer {
	m.Helper()
	a, err := m.client.Do(m.Context(), req, header)
	if err != nil {
		m.Fatalf("%s %s: %v", r.Method, r.Path, err)
	}
	return a
}

// browser signs in with a key and returns the session's cookie.
func (m *matrix) browser(key string) http.Header {
	m.Helper()
	body := url.Values{"api_key": {key}}.Encode()
	a, err := m.client.Do(m.Context(), apptest.Request{
		Method: "POST", Path: "/login", Body: []byte(body), Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
	}, nil)
	cookie, _, _ := strings.Cut(a.Header.Get("Set-Cookie"), ";")
	if err != nil || cookie == "" {
		m.Fatalf("signing in: %d %v", a.Status, err)
	}
	return http.Header{"Cookie": {cookie}}
}

// unstable are the tables and columns that change with every request, or by
// themselves.
var unstable = []string{"rate_windows", "job_workers", "api_keys.last_used_at", "sessions.used_at"}

// dump is every row of every table, those of one organisation where one is
// named and the table knows it.
func (m *matrix) dump(orgID string) []string {
	m.Helper()
	var all []string
	for table, columns := range m.columns {
		query := "SELECT " + strings.Join(columns, ", ") + " FROM " + table
		if orgID != "" && !slices.Contains(columns, "org_id") {
			continue
		}
		rows, err := m.service.DB().Query(m.Context(), query)
		found, err := store.All(rows, err, func(row store.Row) (string, error) {
			values, targets := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				targets[i] = &values[i]
			}
			err := row.Scan(targets...)
			return table + " " + fmt.Sprint(values), err
		})
		if err != nil {
			m.Fatalf("%s: %v", query, err)
		}
		for _, line := range found {
			if orgID == "" || strings.Contains(line, orgID) {
				all = append(all, line)
			}
		}
	}
	slices.Sort(all)
	return all
}

// stableColumns lists the columns of all tables that stay as they are.
func (m *matrix) stableColumns() map[string][]string {
	m.Helper()
	query := `SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'
		AND table_name NOT IN (SELECT relname FROM pg_class WHERE relispartition) ORDER BY 1, ordinal_position`
	if strings.Contains(m.Name(), "sqlite") {
		query = `SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' ORDER BY 1, c.cid`
	}
	rows, err := m.service.DB().Query(m.Context(), query)
	all, err := store.All(rows, err, func(row store.Row) (pair [2]string, err error) {
		err = row.Scan(&pair[0], &pair[1])
		return pair, err
	})
	if err != nil {
		m.Fatal(err)
	}
	tables := map[string][]string{}
	for _, pair := range all {
		if !slices.Contains(unstable, pair[0]) && !slices.Contains(unstable, pair[0]+"."+pair[1]) {
			tables[pair[0]] = append(tables[pair[0]], pair[1])
		}
	}
	return tables
}

// wantUnchanged compares the database with what it held before, and returns
// what it holds.
func (m *matrix) wantUnchanged(what string, before []string, orgID string) []string {
	m.Helper()
	now := m.dump(orgID)
	if !slices.Equal(before, now) {
		m.Errorf("%s changed something (-before +now):\n%s", what, cmp.Diff(before, now))
	}
	return now
}
