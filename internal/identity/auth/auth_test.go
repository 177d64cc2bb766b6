package auth_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// newService is one replica's service on the database.
func newService(db *store.DB) *auth.Service {
	return &auth.Service{DB: db, Seal: sealtest.Keyring(), Log: slog.New(slog.DiscardHandler), PublicURL: "https://whetstone.example.org"}
}

// person makes an organisation of that name, on the plan team, with one user.
func person(t *testing.T, s *auth.Service, org string, role access.Role) auth.User {
	t.Helper()
	o, err := s.CreateOrg(t.Context(), org, access.Team)
	if err != nil {
		t.Fatal(err)
	}
	return colleague(t, s, o.ID, "ada@example.org", role)
}

func colleague(t *testing.T, s *auth.Service, orgID, email string, role access.Role) auth.User {
	t.Helper()
	u, err := s.CreateUser(t.Context(), auth.NewUser{OrgID: orgID, Email: email, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// newKey makes a key of the user; no permissions leave all that the role gives.
func newKey(t *testing.T, s *auth.Service, u auth.User, permissions ...access.Permission) (auth.Key, string) {
	t.Helper()
	k, raw, err := s.CreateKey(t.Context(), auth.NewKey{OrgID: u.OrgID, UserID: u.ID, Name: "CI", Permissions: permissions})
	if err != nil {
		t.Fatal(err)
	}
	return k, raw
}

// authenticated returns the caller behind a key that must be good.
func authenticated(t *testing.T, s *auth.Service, raw string) access.Caller {
	t.Helper()
	c, err := s.Authenticate(t.Context(), raw)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantKind(t *testing.T, err error, kind fault.Kind, message string) {
	t.Helper()
	if err == nil || fault.Of(err) != kind || err.Error() != message {
		t.Errorf("error %v of kind %d, want %q of kind %d", err, fault.Of(err), message, kind)
	}
}

// wantIssue checks that the error is about that field.
func wantIssue(t *testing.T, err error, path string) {
	t.Helper()
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Kind != fault.Malformed || strings.Join(e.Issues[0].Path, ".") != path {
		t.Errorf("%v, want an issue with %s", err, path)
	}
}

func exec(t *testing.T, db *store.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}
