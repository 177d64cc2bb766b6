package scim_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestWhoGetsIn sends random sequences of what a provider, an admin and three people do,
// and compares with a model who gets in, by which way, and with which role.
// -rapid.checks=1000 runs longer.
func TestWhoGetsIn(t *testing.T) {
	apptest.FewChecks(t, 20)
	var checks atomic.Int64
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, at := newWorld(t, db), providers(t)
		rapid.Check(t, func(rt *rapid.T) {
			ada := w.Org(fmt.Sprintf("org-%d", checks.Add(1)))
			p := w.provider(ada).In(rt)
			m := &inOut{
				T: rt, w: w, ada: ada, p: p, door: w.doorTo(ada.Org, at),
				group: p.Post(groups, object{"displayName": "Ops"}).Want(http.StatusCreated).Text("id"),
			}
			m.door.t = rt
			ada.Do(http.MethodPut, roles+"/"+m.group, object{"role": "admin"}).Want(http.StatusOK)
			for _, name := range []string{"bob", "eve", "fay"} {
				m.people = append(m.people, &somebody{name: name, email: name + "@acme.example"})
			}
			rt.Repeat(map[string]func(*rapid.T){
				"": m.compare, "create": m.create, "set active": m.setActive, "delete": m.delete, "group": m.regroup,
				"sign in": m.enter, "remove": m.remove, "invite": m.invite, "accept": m.accept, "key": m.key,
			})
		})
	})
}

// inOut is one check: the organisation and the model of who is in it.
type inOut struct {
	*rapid.T
	w      world
	ada, p *apptest.Caller
	door   *door
	group  string
	people []*somebody
}

// somebody is a person outside, whoever they are here.
type somebody struct {
	name, email string
	user        *modelUser // their membership; nil for a stranger
	listed      *modelRecord
	invitations []string
	ended       []string // keys of memberships that ended
	gone        []string // sessions of them
}

type modelUser struct {
	role     access.Role
	linked   map[string]bool // providers
	keys     []string
	sessions []string
}

// modelRecord is a SCIM user, who is active while they are a member.
type modelRecord struct {
	id      string
	grouped bool
	user    *modelUser // nil: never a member
}

func (s *somebody) inactive() bool { return s.listed != nil && s.user == nil }

// end is the end of a membership.
func (s *somebody) end() {
	if s.user == nil {
		return
	}
	s.ended, s.gone = append(s.ended, s.user.keys...), append(s.gone, s.user.sessions...)
	s.user.keys, s.user.sessions, s.user = nil, nil, nil
}

// activate makes the person a member, who may be one already.
func (s *somebody) activate() {
	role := access.Member
	if s.listed.grouped {
		role = access.AdminRole
	}
	switch {
	case s.user != nil:
		if s.listed.grouped {
			s.user.role = role
		}
		s.listed.user = s.user
		return
	case s.listed.user == nil:
		s.listed.user = &modelUser{linked: map[string]bool{}}
	}
	s.user = s.listed.user
	s.user.role = role
}

func (s *somebody) deactivate() {
	if s.user != nil && s.listed.user == nil {
		s.listed.user = s.user
	}
	s.end()
}

func (m *inOut) somebody(t *rapid.T) *somebody { return rapid.SampledFrom(m.people).Draw(t, "who") }

func (m *inOut) spelling(t *rapid.T, email string) string {
	if rapid.Bool().Draw(t, "capitals") {
		return strings.ToUpper(email[:1]) + email[1:]
	}
	return email
}

func (m *inOut) create(t *rapid.T) {
	s := m.somebody(t)
	body := person(m.spelling(t, s.email))
	active := rapid.Bool().Draw(t, "active")
	body["active"] = active
	if s.listed != nil {
		m.p.Post(users, body).Want(http.StatusConflict)
		return
	}
	s.listed = &modelRecord{id: m.p.Post(users, body).Want(http.StatusCreated).Text("id")}
	if active {
		s.activate()
	} else {
		s.deactivate()
	}
}

func (m *inOut) setActive(t *rapid.T) {
	s := m.somebody(t)
	active, put := rapid.Bool().Draw(t, "active"), rapid.Bool().Draw(t, "put")
	if s.listed == nil {
		t.Skip()
	}
	if put {
		body := person(m.spelling(t, s.email))
		body["active"] = active
		m.p.Do(http.MethodPut, users+"/"+s.listed.id, body).Want(http.StatusOK)
	} else {
		patch(m.p, users+"/"+s.listed.id, object{"op": "replace", "path": "active", "value": active}).Want(http.StatusOK)
	}
	switch {
	case !active:
		s.deactivate()
	case s.user == nil:
		s.activate()
	}
}

func (m *inOut) delete(t *rapid.T) {
	s := m.somebody(t)
	if s.listed == nil {
		t.Skip()
	}
	m.p.Do(http.MethodDelete, users+"/"+s.listed.id, nil).Want(http.StatusNoContent)
	s.deactivate()
	s.listed = nil
}

func (m *inOut) regroup(t *rapid.T) {
	s := m.somebody(t)
	in := rapid.Bool().Draw(t, "in")
	if s.listed == nil || s.listed.grouped == in {
		t.Skip()
	}
	s.listed.grouped = in
	if in {
		patch(m.p, groups+"/"+m.group, object{"op": "add", "path": "members", "value": []object{{"value": s.listed.id}}}).Want(http.StatusNoContent)
		if s.user != nil {
			s.user.role = access.AdminRole
		}
		return
	}
	patch(m.p, groups+"/"+m.group, object{"op": "remove", "path": `members[value eq "` + s.listed.id + `"]`}).Want(http.StatusNoContent)
	if s.user != nil {
		s.user.role = access.Member
	}
}

func (m *inOut) enter(t *rapid.T) {
	s := m.somebody(t)
	provider := rapid.SampledFrom([]string{"corp", "second"}).Draw(t, "provider")
	token, err := m.door.enter(provider, s.name, m.spelling(t, s.email))
	refused := s.inactive() || s.user != nil && len(s.user.linked) > 0 && !s.user.linked[provider]
	if refused {
		if !fault.Is(err, fault.Denied) || strings.Contains(err.Error(), inactive) != s.inactive() {
			t.Fatalf("%s signs in with %s: %v, want a refusal", s.name, provider, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s signs in with %s: %v", s.name, provider, err)
	}
	if s.user == nil {
		s.user = &modelUser{role: access.Member, linked: map[string]bool{}}
	}
	s.user.linked[provider] = true
	s.user.sessions = append(s.user.sessions, token)
}

func (m *inOut) remove(t *rapid.T) {
	s := m.somebody(t)
	if s.user == nil {
		t.Skip()
	}
	m.ada.Do(http.MethodDelete, "/api/v1/members/"+m.member(s).ID, nil).Want(http.StatusNoContent)
	s.end()
}

func (m *inOut) member(s *somebody) auth.User {
	u, err := m.w.Auth.UserByEmail(m.Context(), m.ada.Org.ID, s.email)
	if err != nil {
		m.Fatalf("%s is no member: %v", s.name, err)
	}
	return u
}

func (m *inOut) invite(t *rapid.T) {
	s := m.somebody(t)
	r := m.ada.Post("/api/v1/invitations", object{"role": "viewer", "email": s.email})
	switch {
	case s.inactive():
		r.Want(http.StatusForbidden)
	case s.user != nil:
		r.Want(http.StatusConflict)
	default:
		s.invitations = append(s.invitations, r.Want(http.StatusCreated).Text("token"))
	}
}

func (m *inOut) accept(t *rapid.T) {
	s := m.somebody(t)
	if len(s.invitations) == 0 {
		t.Skip()
	}
	token := s.invitations[0]
	joined, err := m.door.members.Accept(t.Context(), members.Acceptance{Token: token, KeyName: "first"})
	switch {
	case s.inactive():
		if !fault.Is(err, fault.Denied) {
			t.Fatalf("%s, who is inactive, accepts: %v", s.name, err)
		}
	case s.user != nil:
		if !fault.Is(err, fault.Conflict) {
			t.Fatalf("%s, who is a member, accepts: %v", s.name, err)
		}
	case err != nil:
		t.Fatalf("%s accepts: %v", s.name, err)
	default:
		s.invitations = s.invitations[1:]
		s.user = &modelUser{role: access.Viewer, linked: map[string]bool{}, keys: []string{joined.RawKey}}
	}
}

func (m *inOut) key(t *rapid.T) {
	s := m.somebody(t)
	if s.user == nil {
		t.Skip()
	}
	s.user.keys = append(s.user.keys, m.w.WithKey(m.ada.Org, m.member(s), auth.NewKey{}).Key)
}

// compare looks at every key and session that ever was.
func (m *inOut) compare(t *rapid.T) {
	check := func(s *somebody, what string, in bool, c access.Caller, err error) {
		switch {
		case !in && !fault.Is(err, fault.Unauthorized):
			t.Fatalf("%s of %s that ended: %v", what, s.name, err)
		case in && (err != nil || c.Role != s.user.role || c.Email != s.email):
			t.Fatalf("%s of %s: %s %s, %v, want %s", what, s.name, c.Email, c.Role, err, s.user.role)
		}
	}
	for _, s := range m.people {
		want := access.Role("")
		var keys, sessions []string
		if s.user != nil {
			want, keys, sessions = s.user.role, s.user.keys, s.user.sessions
		}
		if got := m.w.roleOf(m.ada.Org, s.email); got != want {
			t.Fatalf("%s has the role %q, want %q", s.name, got, want)
		}
		if s.listed != nil && m.p.Get(users + "/" + s.listed.id).Want(http.StatusOK).Object()["active"] != (s.user != nil) {
			t.Fatalf("%s is active: %t, want %t", s.name, s.user == nil, s.user != nil)
		}
		for i, all := range [][]string{keys, s.ended} {
			for _, raw := range all {
				c, err := m.w.Auth.Authenticate(t.Context(), raw)
				check(s, "a key", i == 0, c, err)
			}
		}
		for i, all := range [][]string{sessions, s.gone} {
			for _, token := range all {
				c, _, err := m.w.Auth.Resume(t.Context(), token)
				check(s, "a session", i == 0, c, err)
			}
		}
	}
}
