package signin_test

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/signin"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc/oidctest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// asked goes to a provider to link an account there, and returns the offer.
func (h *house) asked(w signin.Welcome, name, session string) (string, error) {
	h.t.Helper()
	location, cookie, err := h.s.StartLink(h.t.Context(), h.caller(w, nil), w.Session.ID, name)
	if err != nil {
		h.t.Fatal(err)
	}
	done, err := h.finish(signin.Callback{Provider: name, Cookie: cookie, Query: h.visit(location), Session: session})
	if done.Token != "" {
		h.t.Error("linking an account opened a session")
	}
	return done.Offer, err
}

// TestLink: a person who is signed in links a second account, which then signs them in,
// lowers no role, and can be unlinked again.
func TestLink(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		boss := h.user("ada@example.org", access.Owner)
		h.corp.SetPerson(ada(nil))
		h.other.SetPerson(ada(oidctest.Claims{"sub": "77", "email": "ada@home.example"}))
		w := must(h.signIn("corp"))
		c := h.caller(w, nil)
		offer, err := h.asked(w, "other", w.Session.ID)
		if err != nil {
			t.Fatal(err)
		}
		if n := h.count("identities"); n != 1 {
			t.Errorf("%d identities before it was confirmed", n)
		}
		for range 2 { // a second click changes nothing
			if _, err := h.s.Link(t.Context(), c, w.Session.ID, offer); err != nil {
				t.Fatal(err)
			}
		}
		h.s.Providers[1].Roles = map[string]access.Role{"guests": access.Viewer}
		h.other.SetPerson(ada(oidctest.Claims{"sub": "77", "email": "ada@home.example", "groups": []string{"guests"}}))
		second := must(h.signIn("other"))
		if got := h.caller(second, nil); got.UserID != boss.ID || got.Role != access.Owner {
			t.Errorf("by the second account it is %+v", got)
		}

		all, err := h.s.Accounts(t.Context(), c)
		if err != nil || len(all) != 2 {
			t.Fatalf("accounts %+v, %v", all, err)
		}
		eve := h.caller(h.as("corp", "5", "eve@example.org"))
		if err := h.s.Unlink(t.Context(), eve, all[1].ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("unlinking another's account: %v", err)
		}
		if err := h.s.Unlink(t.Context(), c, all[1].ID); err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.Auth.Resume(t.Context(), second.Token); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("the session of the unlinked account: %v", err)
		}
		if err := h.s.Unlink(t.Context(), c, all[0].ID); !fault.Is(err, fault.Conflict) {
			t.Errorf("unlinking the last way in: %v", err)
		}
		h.caller(w, nil) // nothing of it was done
	})
}

// as signs a person in at a provider.
func (h *house) as(provider, subject, email string) (signin.Welcome, error) {
	h.t.Helper()
	at := map[string]*oidctest.Provider{"corp": h.corp, "other": h.other}[provider]
	at.SetPerson(ada(oidctest.Claims{"sub": subject, "email": email}))
	return h.signIn(provider)
}

// TestLinkRefused: a foreign account, session or membership cannot be linked.
func TestLinkRefused(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		eve := must(h.as("corp", "5", "eve@example.org"))
		own := h.caller(eve, nil)
		w := must(h.as("corp", "1", "ada@example.org"))
		c := h.caller(w, nil)
		h.other.SetPerson(ada(oidctest.Claims{"sub": "77"}))
		offer, err := h.asked(w, "other", w.Session.ID)
		if err != nil {
			t.Fatal(err)
		}
		sign := h.start("other").Cookie
		for name, try := range map[string]func() error{
			"the offer in another session": func() error { _, err := h.s.Link(t.Context(), own, eve.Session.ID, offer); return err },
			"a made-up offer":              func() error { _, err := h.s.Link(t.Context(), c, w.Session.ID, "AAAA"); return err },
			"the cookie of a sign-in":      func() error { _, err := h.s.Link(t.Context(), c, w.Session.ID, sign); return err },
			"the answer in another browser": func() error {
				_, err := h.asked(w, "other", eve.Session.ID)
				return err
			},
			"the answer without a session": func() error { _, err := h.asked(w, "other", ""); return err },
			"a session by key": func() error {
				s, _, err := h.Auth.SignIn(t.Context(), auth.NewSession{RawKey: h.owner.Key})
				if err != nil {
					t.Fatal(err)
				}
				_, _, err = h.s.StartLink(t.Context(), access.Caller{OrgID: s.OrgID, OrgName: "acme", UserID: s.UserID}, s.ID, "other")
				return err
			},
			"a provider of another organisation": func() error {
				h.s.Providers[1].Org = "else"
				defer func() { h.s.Providers[1].Org = "acme" }()
				_, _, err := h.s.StartLink(t.Context(), c, w.Session.ID, "other")
				return err
			},
		} {
			if err := try(); !fault.Is(err, fault.Denied) {
				t.Errorf("%s: %v, want Denied", name, err)
			}
		}
		// An account of another member, and a second one at the same provider.
		h.caller(h.as("other", "78", "fay@example.org"))
		if offer, err = h.asked(w, "other", w.Session.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := h.s.Link(t.Context(), c, w.Session.ID, offer); !fault.Is(err, fault.Conflict) {
			t.Errorf("an account of another member: %v", err)
		}
		h.corp.SetPerson(ada(oidctest.Claims{"sub": "99"}))
		if offer, err = h.asked(w, "corp", w.Session.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := h.s.Link(t.Context(), c, w.Session.ID, offer); !fault.Is(err, fault.Conflict) {
			t.Errorf("a second account at the provider: %v", err)
		}
		if n := h.count("identities"); n != 3 {
			t.Errorf("%d identities, want 3", n)
		}
	})
}
