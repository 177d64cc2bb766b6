package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// peopleDecide walks through an invitation that is used twice, the approval of a candidate
// by two people, and the removal of one of them while she is signed in and her key is used.
func peopleDecide(t *testing.T, c *chromium, database string) {
	t.Helper()
	p := startProcess(t, database)
	owner := c.tab(t, p.url)
	owner.signIn(p.key)

	// Each joins with a link of their own, which works once.
	ada, adaKey, link := joins(t, c, owner, p, "Ada", "ada@example.org")
	ben, _, _ := joins(t, c, owner, p, "Ben", "ben@example.org")
	late := c.tab(t, p.url)
	late.expected = "status of 4"
	late.visit(link)
	late.wantText("main", "was used")

	// Together they own a skill, whose versions need both.
	owner.visit("/settings/teams")
	owner.checkPage("settings-teams")
	owner.do(chromedp.SendKeys("#name", "Docs"), chromedp.SendKeys("#members", "ada@example.org ben@example.org"), chromedp.Click("main form button"))
	owner.await("main", "The team @docs was created.")
	owner.checkLooks("settings-team")
	caller := &apptest.Caller{T: t, URL: p.url, Key: p.key}
	upload := func(path, version string) apptest.Response {
		text := "---\nname: pdf\ndescription: Reads PDF files.\n---\nVersion " + version + ".\n"
		return caller.Upload(path, apptest.JSONPart(t, "metadata", object{"name": "pdf", "version": version}),
			apptest.Part{Name: "archive", File: "skill.tar.gz", Content: []byte(apptest.Pack(t, "SKILL.md", text))})
	}
	entry := upload("/api/v1/registry", "1.0.0").Want(http.StatusCreated).Text("entry", "id")
	owner.visit("/registry/" + entry)
	owner.do(chromedp.Click("#owners summary"), chromedp.SendKeys("#owner-names", "@docs"), chromedp.Click("#owners form button"))
	owner.await("#owners", "2 members")
	owner.checkPage("registry-owners")
	owner.api(p.key, "PUT", "/api/v1/registry/"+entry+"/gate-policy", object{"policy": object{"mode": "off", "approvals": 2}})
	upload("/api/v1/registry/"+entry+"/versions", "1.1.0").Want(http.StatusAccepted)
	review := "/registry/" + entry + "/versions/1.1.0/review"
	ada.visit(review)
	ada.do(chromedp.Click(`button[value="approve"]`))
	ada.await("main", "it has 1 of 2 approvals")
	ben.visit(review)
	ben.do(chromedp.Click(`button[value="approve"]`))
	ben.await("main", "Version 1.1.0 is current.")

	// A service account with a key, which is shown once.
	owner.visit("/settings/service-accounts")
	owner.checkPage("settings-service-accounts")
	owner.do(chromedp.SendKeys("#name", "deploy-bot"), chromedp.Click("main form button"))
	owner.await("h1", "deploy-bot")
	owner.do(chromedp.SendKeys("#name", "CI"), chromedp.Click(`input[value="key"] ~ button`))
	owner.await(".made", "It is not shown again.")
	owner.checkLooks("settings-service-account")

	// Ada is removed: her key and her session end with the same transaction.
	me := owner.api(adaKey, "GET", "/api/v1/me", nil)
	owner.api(p.key, "DELETE", "/api/v1/members/"+me["user"].(object)["id"].(string), nil)
	removed := &apptest.Caller{T: t, URL: p.url, Key: adaKey}
	removed.Get("/api/v1/me").Want(http.StatusUnauthorized)
	ada.visit("/registry/" + entry)
	if at := run(ada, chromedp.Location()); !strings.HasPrefix(at, p.url+"/login") {
		t.Errorf("after her removal she is at %s", at)
	}
}

// joins invites a person, who becomes an admin in a browser of their own.
func joins(t *testing.T, c *chromium, owner *tab, p *process, name, email string) (b *tab, key, link string) {
	t.Helper()
	link = owner.api(p.key, "POST", "/api/v1/invitations", object{"role": "admin", "email": email})["url"].(string)
	_, token, _ := strings.Cut(link, "/invite/")
	link = "/invite/" + token
	b = c.tab(t, p.url)
	b.visit(link)
	b.do(chromedp.SendKeys("#name", name), chromedp.Click("main form button"))
	b.await("main", "Welcome to")
	for _, word := range strings.Fields(run(b, chromedp.Text("main"))) {
		if strings.HasPrefix(word, "st_live_") {
			key = word
		}
	}
	return b, key, link
}
