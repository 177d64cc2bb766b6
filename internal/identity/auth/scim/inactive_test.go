package scim_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/signin"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc/oidctest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// door is where people of an organisation sign in, with two providers.
type door struct {
	t       apptest.T
	signIn  *signin.Service
	members *members.Service
	at      map[string]*oidctest.Provider
}

// doorTo opens a door to an organisation. All share the providers.
func (w world) doorTo(o auth.Organisation, at map[string]*oidctest.Provider) *door {
	w.T.Helper()
	client, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		w.T.Fatal(err)
	}
	d := &door{t: w.T, at: at, members: &members.Service{DB: w.DB, Auth: w.Auth, PublicURL: apptest.PublicURL}}
	d.signIn = &signin.Service{
		DB: w.DB, Auth: w.Auth, Keys: oidc.NewKeys(client), HTTP: client, PublicURL: apptest.PublicURL,
		Secret: []byte(strings.Repeat("k", 32)), Log: w.Log,
	}
	for _, name := range []string{"corp", "second"} {
		d.signIn.Providers = append(d.signIn.Providers, signin.Provider{
			Name: name, Issuer: at[name].URL, ClientID: oidctest.ClientID, Secret: oidctest.ClientSecret, Org: o.Name,
		})
	}
	return d
}

func providers(t *testing.T) map[string]*oidctest.Provider {
	t.Helper()
	return map[string]*oidctest.Provider{"corp": oidctest.New(t), "second": oidctest.New(t)}
}

// enter signs a person in by subject and address, and returns the token of the session.
func (d *door) enter(provider, subject, email string, groups ...string) (string, error) {
	d.t.Helper()
	d.at[provider].SetPerson(oidctest.Claims{"sub": subject, "email": email, "email_verified": true, "groups": groups})
	location, cookie, err := d.signIn.Start(d.t.Context(), provider, "/")
	if err != nil {
		d.t.Fatalf("%v", err)
	}
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, location, nil)
	if err != nil {
		d.t.Fatalf("%v", err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		d.t.Fatalf("%v", err)
	}
	defer resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		d.t.Fatalf("the provider answers %s: %v", resp.Status, err)
	}
	w, err := d.signIn.Finish(d.t.Context(), signin.Callback{Provider: provider, Cookie: cookie, Query: back.Query()})
	return w.Token, err
}

const inactive = "is inactive at the identity provider that manages the people of this organisation"

// wantInactive checks that somebody is refused because they are inactive.
func wantInactive(t *testing.T, what string, err error) {
	t.Helper()
	if !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), inactive) {
		t.Errorf("%s: %v, want that they are inactive", what, err)
	}
}

// TestInactiveStaysOut: whom the provider deactivated gets in by no way, and who was
// deleted there is a stranger.
func TestInactiveStaysOut(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, at := newWorld(t, db), providers(t)
		const email = "bob@acme.example"
		off, on := object{"op": "replace", "path": "active", "value": false}, object{"op": "replace", "path": "active", "value": true}
		gone := func(t *testing.T, token string) {
			t.Helper()
			if _, _, err := w.Auth.Resume(t.Context(), token); !fault.Is(err, fault.Unauthorized) {
				t.Errorf("the session lives on: %v", err)
			}
		}
		each := func(name string, test func(t *testing.T, ada, p *apptest.Caller, d *door)) {
			t.Run(name, func(t *testing.T) {
				ada := w.Org(strings.ReplaceAll(name, " ", "-"))
				d := w.doorTo(ada.Org, at)
				ada, d.t = ada.In(t), t
				test(t, ada, w.provider(ada).In(t), d)
			})
		}
		in := func(d *door, provider, subject, email string) string {
			d.t.Helper()
			token, err := d.enter(provider, subject, email)
			if err != nil {
				d.t.Fatalf("%s at %s: %v", email, provider, err)
			}
			return token
		}

		each("deactivated", func(t *testing.T, ada, p *apptest.Caller, d *door) {
			id := create(p, email)
			token := in(d, "corp", "1", email)
			before, err := w.Auth.UserByEmail(t.Context(), ada.Org.ID, email)
			if err != nil {
				t.Fatal(err)
			}
			patch(p, users+"/"+id, off).Want(http.StatusOK)
			gone(t, token)
			for _, who := range [][3]string{
				{"corp", "1", email}, {"corp", "1", "robert@acme.example"}, {"corp", "2", "BOB@acme.example"}, {"second", "9", email},
			} {
				_, err := d.enter(who[0], who[1], who[2])
				wantInactive(t, strings.Join(who[:], " "), err)
			}
			patch(p, users+"/"+id, off).Want(http.StatusOK)
			patch(p, users+"/"+id, on).Want(http.StatusOK)
			in(d, "corp", "1", "robert@acme.example")
			if u, err := w.Auth.UserByEmail(t.Context(), ada.Org.ID, email); err != nil || u.ID != before.ID {
				t.Errorf("active again as %+v, %v, want %s", u, err, before.ID)
			}
			p.Do(http.MethodDelete, users+"/"+id, nil).Want(http.StatusNoContent)
			in(d, "corp", "1", email)
			if u, err := w.Auth.UserByEmail(t.Context(), ada.Org.ID, email); err != nil || u.ID == before.ID || u.Role != access.Member {
				t.Errorf("after the deletion it is %+v, %v, want a stranger", u, err)
			}
		})
		each("back by another way", func(t *testing.T, ada, p *apptest.Caller, _ *door) {
			id := create(p, email)
			for _, last := range []func(){
				func() { patch(p, users+"/"+id, off).Want(http.StatusOK) },
				func() {
					body := person(email)
					body["active"] = false
					p.Do(http.MethodPut, users+"/"+id, body).Want(http.StatusOK)
				},
				func() { p.Do(http.MethodDelete, users+"/"+id, nil).Want(http.StatusNoContent) },
			} {
				patch(p, users+"/"+id, off).Want(http.StatusOK)
				bob := w.member(ada.Org, email, access.AdminRole) // by the operator
				_, token, err := w.Auth.SignIn(t.Context(), auth.NewSession{RawKey: bob.Key})
				if err != nil {
					t.Fatal(err)
				}
				last()
				bob.Get("/api/v1/me").WantError(http.StatusUnauthorized, "This API key was revoked")
				gone(t, token)
				if w.roleOf(ada.Org, email) != "" {
					t.Error("bob is a member")
				}
			}
		})
		each("inactive from the beginning", func(t *testing.T, ada, p *apptest.Caller, d *door) {
			token := in(d, "corp", "1", email) // before the provider pushes anybody
			body := object{
				"userName": "Robert@Acme.example", "active": false,
				"emails": []object{{"value": "rob@acme.example", "primary": true}, {"value": "Bob@Acme.example"}},
			}
			p.Post(users, body).Want(http.StatusCreated)
			gone(t, token)
			for _, address := range []string{email, "robert@acme.example", "rob@acme.example"} {
				_, err := d.enter("second", address, address)
				wantInactive(t, address, err)
			}
			// Their subject is known, by whatever address.
			_, err := d.enter("corp", "1", "new@acme.example")
			wantInactive(t, "with a new address", err)
			in(d, "second", "5", "bobby@acme.example")
		})
		each("address changed", func(t *testing.T, ada, p *apptest.Caller, d *door) {
			id := create(p, email)
			body := person("robert@acme.example")
			body["active"] = false
			p.Do(http.MethodPut, users+"/"+id, body).Want(http.StatusOK)
			for i, address := range []string{email, "robert@acme.example"} {
				_, err := d.enter("corp", string(rune('1'+i)), address)
				wantInactive(t, address, err)
			}
		})
		each("told another address", func(t *testing.T, ada, p *apptest.Caller, d *door) {
			// A member before the provider pushed anybody, whose address has changed there.
			in(d, "corp", "1", "old@acme.example")
			token := in(d, "corp", "1", email)
			body := person(email)
			body["active"] = false
			p.Post(users, body).Want(http.StatusCreated)
			gone(t, token)
			if w.roleOf(ada.Org, "old@acme.example") != "" {
				t.Error("bob is a member by the address of before")
			}
			_, err := d.enter("corp", "1", "old@acme.example")
			wantInactive(t, "with the address of before", err)
		})
		each("invited", func(t *testing.T, ada, p *apptest.Caller, d *door) {
			asAda := access.Caller{
				OrgID: ada.Org.ID, UserID: ada.User.ID, KeyID: ada.KeyID, Role: access.Owner, Permissions: access.Owner.Permissions(),
			}
			_, named, err := d.members.Invite(t.Context(), asAda, members.NewInvitation{Role: access.AdminRole, Email: email})
			if err != nil {
				t.Fatal(err)
			}
			_, open, err := d.members.Invite(t.Context(), asAda, members.NewInvitation{Role: access.AdminRole})
			if err != nil {
				t.Fatal(err)
			}
			patch(p, users+"/"+create(p, email), off).Want(http.StatusOK)
			for _, body := range []object{{"token": named}, {"token": open, "email": "Bob@acme.example"}} {
				r := w.Anonymous().In(t).Post("/api/v1/invitations/accept", body)
				if r.Want(http.StatusForbidden); !strings.Contains(string(r.Body), inactive) {
					t.Errorf("accepting: %s", r.Body)
				}
			}
			ada.Post("/api/v1/invitations", object{"role": "member", "email": email}).WantErrorWith(http.StatusForbidden, inactive)
			// The link is not used up.
			w.Anonymous().In(t).Post("/api/v1/invitations/accept", object{"token": open, "email": "eve@acme.example"}).Want(http.StatusCreated)
		})
		each("two organisations", func(t *testing.T, ada, p *apptest.Caller, d *door) {
			other := w.Org("two-others")
			elsewhere, q := w.doorTo(other.Org, at), w.provider(other)
			elsewhere.t = t
			token := in(elsewhere, "corp", "1", email)
			id, theirs := create(p, email), create(q, email)
			patch(p, users+"/"+id, off).Want(http.StatusOK)
			_, err := d.enter("corp", "1", email)
			wantInactive(t, "here", err)
			if _, _, err := w.Auth.Resume(t.Context(), token); err != nil {
				t.Errorf("the session of the other organisation: %v", err)
			}
			in(elsewhere, "corp", "1", email)
			p.Do(http.MethodDelete, users+"/"+id, nil).Want(http.StatusNoContent)
			in(elsewhere, "corp", "1", email)
			patch(q, users+"/"+theirs, off).Want(http.StatusOK)
			in(d, "corp", "1", email) // deleted here: a stranger
		})
		each("address given to another", func(t *testing.T, ada, p *apptest.Caller, d *door) {
			patch(p, users+"/"+create(p, email), off).Want(http.StatusOK)
			next := person(email)
			next["userName"] = "bob2@acme.example"
			id := p.Post(users, next).Want(http.StatusCreated).Text("id")
			in(d, "corp", "2", email)
			// What happens to the first Bob is not about the second.
			first := p.Get(users + "?filter=userName%20eq%20%22bob@acme.example%22").Want(http.StatusOK).List("Resources")[0]
			p.Do(http.MethodDelete, users+"/"+apptest.Text(first, "id"), nil).Want(http.StatusNoContent)
			in(d, "corp", "2", email)
			patch(p, users+"/"+id, off).Want(http.StatusOK)
			_, err := d.enter("corp", "2", email)
			wantInactive(t, "the second", err)
		})
		each("removed here", func(t *testing.T, ada, p *apptest.Caller, d *door) {
			id := create(p, email)
			in(d, "corp", "1", email)
			u, err := w.Auth.UserByEmail(t.Context(), ada.Org.ID, email)
			if err != nil {
				t.Fatal(err)
			}
			ada.Do(http.MethodDelete, "/api/v1/members/"+u.ID, nil).Want(http.StatusNoContent)
			_, err = d.enter("corp", "1", email)
			wantInactive(t, "removed here", err)
			patch(p, users+"/"+id, on).Want(http.StatusOK)
			in(d, "corp", "1", email)
		})
		each("approved logins", func(t *testing.T, ada, p *apptest.Caller, d *door) {
			id := create(p, email)
			token := in(d, "corp", "1", email)
			c, _, err := w.Auth.Resume(t.Context(), token)
			if err != nil {
				t.Fatal(err)
			}
			login, err := w.Auth.StartDevice(t.Context(), "cli", "")
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Auth.AnswerDevice(t.Context(), c, login.UserCode, true); err != nil {
				t.Fatal(err)
			}
			late, err := w.Auth.StartDevice(t.Context(), "cli", "")
			if err != nil {
				t.Fatal(err)
			}
			patch(p, users+"/"+id, off).Want(http.StatusOK)
			// A replica may believe in the session for some seconds.
			_ = w.Auth.AnswerDevice(t.Context(), c, late.UserCode, true)
			patch(p, users+"/"+id, on).Want(http.StatusOK)
			for _, code := range []string{login.DeviceCode, late.DeviceCode} {
				if r, err := w.Auth.PollDevice(t.Context(), code); err != nil || r.Status != auth.DeviceDenied {
					t.Errorf("a login approved before: %+v, %v", r, err)
				}
			}
		})
	})
}
