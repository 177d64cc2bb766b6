package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/notifytest"
)

var rawInvitation = regexp.MustCompile(`/invite/inv_[0-9A-Za-z]{43}`)

func TestMembers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		owner, admin, viewer := w.as(access.Owner), w.as(access.AdminRole), w.as(access.Viewer)
		viewer.get("/settings/members").want(http.StatusOK).wantText("owner@localhost", "Admins and owners can invite people").
			wantNoText("Invite a person", "Save", "Manage")
		made := admin.post("/settings/members/invitations", url.Values{"email": {"Grace@example.org"}, "role": {"member"}, "days": {"7"}}).
			want(http.StatusOK).wantText("Invitation of grace@example.org", "It is not shown again", "expires in 7 days . Only grace@example.org can use it to join as member.")
		checkPage(t, made)
		// A reload leads to the members.
		if got := attr(made.all("html")[0], "data-address"); got != "/settings/members" {
			t.Errorf("the address of the page is %q", got)
		}
		link := rawInvitation.FindString(made.body)
		list := admin.get("/settings/members").wantText("grace@example.org", "pending")
		checkPage(t, list)
		if link == "" || strings.Contains(list.body, link) {
			t.Errorf("the link %q is shown again", link)
		}
		for _, c := range []struct {
			b      *browser
			form   url.Values
			status int
		}{
			{admin, url.Values{"email": {"owner@localhost"}, "role": {"member"}}, http.StatusConflict},
			{admin, url.Values{"email": {"eve"}, "role": {"member"}}, http.StatusBadRequest},
			{admin, url.Values{"role": {"member"}, "days": {"31"}}, http.StatusBadRequest},
			{admin, url.Values{"role": {"owner"}}, http.StatusForbidden},
			{viewer, url.Values{"role": {"viewer"}}, http.StatusForbidden},
		} {
			c.b.post("/settings/members/invitations", c.form).want(c.status)
		}

		grace := w.browser()
		joined := grace.post(link, url.Values{"name": {"Grace <b>"}, "key": {"true"}}).want(http.StatusOK).
			wantText("Welcome to default", "It is not shown again.", "as grace@example.org")
		caller, err := w.Auth.Authenticate(t.Context(), rawKey.FindString(joined.body))
		if err != nil || caller.Role != access.Member || caller.Name != "Grace <b>" {
			t.Errorf("grace is %+v, %v", caller, err)
		}
		grace.get("/account").want(http.StatusOK).wantText("grace@example.org")

		role := "/settings/members/" + caller.UserID + "/role"
		admin.post(role, url.Values{"role": {"viewer"}}).wantLocation("/settings/members")
		admin.get("/settings/members").wantText("Grace <b> now has the role viewer.")
		admin.post(role, url.Values{"role": {"owner"}}).want(http.StatusForbidden)
		viewer.post(role, url.Values{"role": {"admin"}}).want(http.StatusForbidden)

		// Her page names what ends.
		of := "/settings/members/" + caller.UserID
		viewer.get(of).want(http.StatusForbidden)
		profile := admin.get(of).want(http.StatusOK).wantText("Remove Grace <b>", "1 API key: first key", "1 browser session", "What they created stays").
			wantNoText("Transfer ownership")
		checkPage(t, profile)
		owner.get(of).wantText("Transfer ownership to Grace <b>")
		admin.post(of+"/transfer", nil).want(http.StatusForbidden)
		viewer.post(of+"/remove", nil).want(http.StatusForbidden)

		// She is signed in while she is removed.
		admin.post(of+"/remove", nil).wantLocation("/settings/members")
		admin.get("/settings/members").wantText("grace@example.org was removed. Their keys and sessions have ended.").wantNoText("Grace <b>")
		if location := grace.get("/account").want(http.StatusSeeOther).Header.Get("Location"); !strings.HasPrefix(location, "/login") {
			t.Errorf("she is led to %s", location)
		}
		admin.get(of).want(http.StatusOK).wantText("Grace <b> (removed)").wantNoText("Transfer ownership", "These end immediately")
		admin.post(of+"/remove", nil).want(http.StatusNotFound)
		admin.get("/settings/audit").wantText("removed grace@example.org", "Grace <b> (removed)")
	})
}

// TestInvitePage: opening the link changes nothing, and a form of another site is
// refused.
func TestInvitePage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin := w.as(access.AdminRole)
		invite := func(form url.Values) string {
			t.Helper()
			return rawInvitation.FindString(admin.post("/settings/members/invitations", form).want(http.StatusOK).body)
		}
		link := invite(url.Values{"role": {"viewer"}})
		bob := w.browser()
		for range 3 {
			page := bob.get(link).want(http.StatusOK).wantText("Join default", "as a viewer", "Your email")
			checkPage(t, page)
			if got := page.Header.Get("Referrer-Policy"); got != "same-origin" {
				t.Errorf("Referrer-Policy %q", got)
			}
			if len(page.Header.Values("Set-Cookie")) > 0 {
				t.Errorf("a link sets %v", page.Header.Values("Set-Cookie"))
			}
		}
		bob.post(link, url.Values{"name": {"Bob"}, "email": {"bob"}}).want(http.StatusBadRequest).wantText("Email must be one address")
		bob.post(link, url.Values{"name": {"Bob"}, "email": {"owner@localhost"}}).want(http.StatusConflict)

		// The admin who made it has not used it up by mistake.
		admin.get(link).want(http.StatusOK).wantText("Send the link to the person whom you invite").wantNoText("Your name")
		admin.post(link, url.Values{"name": {"x"}, "email": {"x@example.org"}}).want(http.StatusConflict).wantText("sign out first")

		// Without a key on the page she is signed in all the same.
		bob.post(link, url.Values{"name": {"Bob"}, "email": {"bob@example.org"}}).wantLocation("/")
		bob.get("/").want(http.StatusOK).wantText("Welcome to default.")
		again := w.browser()
		again.get(link).want(http.StatusConflict).wantText("This invitation was used already")
		again.post(link, url.Values{"name": {"Eve"}, "email": {"eve@example.org"}}).want(http.StatusConflict).wantText("This invitation was used already")
		again.get("/invite/inv_none").want(http.StatusNotFound).wantText("This invitation is not known")

		// Somebody who is signed in elsewhere is told, and nothing happens until they agree.
		elsewhere := w.browser()
		elsewhere.post("/login", url.Values{"api_key": {w.OrgWithPlan("elsewhere", access.Team).Key}}).wantLocation("/")
		link = invite(url.Values{"role": {"viewer"}})
		elsewhere.get(link).want(http.StatusOK).wantText("of elsewhere. Joining makes another account, and ends this session.")
		elsewhere.get("/account").wantText("elsewhere")

		// An invitation that was ended.
		id := regexp.MustCompile(`/settings/members/invitations/([^/"]+)/revoke`).FindStringSubmatch(admin.get("/settings/members").body)[1]
		admin.post("/settings/members/invitations/"+id+"/revoke", nil).wantLocation("/settings/members")
		elsewhere.post(link, url.Values{"name": {"x"}, "email": {"x@example.org"}}).want(http.StatusConflict).wantText("This invitation was withdrawn")
		elsewhere.get("/account").wantText("elsewhere")
	})
}

func TestLeave(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		b := w.as(access.Member)
		b.get("/account").wantText("Leave default")
		b.post("/account/leave", url.Values{"email": {"x@example.org"}}).want(http.StatusBadRequest)
		b.get("/account").want(http.StatusOK)
		b.post("/account/leave", url.Values{"email": {b.api.User.Email}}).wantLocation("/login")
		b.get("/account").want(http.StatusSeeOther)
	})
}

// TestInvitationByMail: with a mail server the page says that the link is on its way, and
// then what became of it.
func TestInvitationByMail(t *testing.T) {
	t.Parallel()
	box := notifytest.OpenMailbox(t, 0)
	w := newWorld(t, "sqlite", "--smtp-url", box.URL, "--mail-from", "no-reply@whetstone.example")
	b := w.as(access.Owner)
	b.get("/settings/members").want(http.StatusOK).wantText("and sends the link to it")
	b.post("/settings/members/invitations", url.Values{"role": {"member"}, "email": {"bob@example.org"}}).want(http.StatusOK).
		wantText("on its way to them by email").wantText("/invite/inv_")
	apptest.Eventually(t, "the mail", func() bool { return box.Count() == 1 })
	apptest.Eventually(t, "the status", func() bool {
		return strings.Contains(b.get("/settings/members").want(http.StatusOK).body, "mail delivered")
	})
}
