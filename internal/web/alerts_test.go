package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// alertOn is a form that makes an alert with a webhook.
func alertOn(address string) url.Values {
	return url.Values{
		"type": {"pass_rate_below"}, "pass_rate": {"80"}, "days": {"7"}, "sensitivity": {"point"}, "skill": {""},
		"channel": {"webhook"}, "address": {address},
	}
}

// skillID is the id of a skill by its name.
func (b *browser) skillID(name string) string {
	b.w.T.Helper()
	for _, s := range b.api.Get("/v1/skills").Want(http.StatusOK).List("skills") {
		if s["name"] == name {
			return s["skill_id"].(string)
		}
	}
	b.w.T.Fatalf("there is no skill %s", name)
	return ""
}

// onlyAlert is the path of the only alert.
func (b *browser) onlyAlert() string {
	b.w.T.Helper()
	all := b.api.Get("/api/v1/alerts").Want(http.StatusOK).List("alerts")
	if len(all) != 1 {
		b.w.T.Fatalf("there are %d alerts", len(all))
	}
	return "/alerts/" + all[0]["id"].(string)
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	status.Store(http.StatusOK)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	t.Cleanup(receiver.Close)
	w := newWorld(t, "sqlite", "--allow-private-targets")
	b := w.as(access.Owner)
	b.get("/alerts").want(http.StatusOK).wantText("No alerts yet").wantForms()
	b.get("/alerts/new").want(http.StatusOK).wantText("There are no skills yet.")
	address := receiver.URL + "/hook-token"
	made := b.post("/alerts", alertOn(address)).want(http.StatusOK).wantText("It is not shown again", "whsec_")
	secret := textOf(made.all("code")[0])
	path := b.onlyAlert()
	page := b.get(path).want(http.StatusOK).
		wantText("All skills: 7-day pass rate below 80 %", "not evaluated yet", "Nothing has been sent yet", "Webhook")
	for _, hidden := range []string{secret, "hook-token"} {
		if strings.Contains(page.body, hidden) || strings.Contains(b.get("/alerts").body, hidden) {
			t.Errorf("a page shows %q", hidden)
		}
	}
	b.post(path+"/test", nil).wantLocation(path)
	b.get(path).wantText("The test notification was delivered. The receiver responded with 200", "● delivered")
	status.Store(http.StatusGone)
	refused := b.post(path+"/test", nil).want(http.StatusConflict).
		wantText("The test notification was not delivered. The receiver responded with 410", "■ failed")
	if got := attr(refused.all("html")[0], "data-address"); got != path {
		t.Errorf("a reload opens %q, want %s", got, path)
	}
	b.get(path + "/test").wantLocation(path)

	b.post(path+"/enabled", url.Values{"enabled": {"false"}}).wantLocation(path)
	b.get(path).wantText("The alert was turned off", "disabled", "Turn on")
	b.post(path+"/enabled", url.Values{"enabled": {"true"}}).wantLocation(path)
	b.post(path, url.Values{"pass_rate": {"62.5"}, "sensitivity": {"confident"}, "channel": {"webhook"}}).wantLocation(path)
	b.get("/alerts").want(http.StatusOK).wantText("below 62 % (confident)")
	b.post(path, url.Values{"pass_rate": {"200"}, "sensitivity": {"point"}, "channel": {"webhook"}}).want(http.StatusBadRequest).
		wantText("from 0 to 100")
	b.post(path, url.Values{"pass_rate": {"50"}, "sensitivity": {"point"}, "channel": {"email"}}).want(http.StatusBadRequest).
		wantText("Enter an address for the channel Email")
	b.post(path, url.Values{"pass_rate": {"50"}, "sensitivity": {"point"}, "channel": {"email"}, "address": {"a@example.org"}}).
		wantLocation(path)
	b.get(path).want(http.StatusOK).wantText("No mail server is configured")
	b.post(path+"/rotate-secret", nil).want(http.StatusConflict)
	b.post(path, url.Values{"pass_rate": {"50"}, "sensitivity": {"point"}, "channel": {"webhook"}, "address": {address}}).
		want(http.StatusOK).wantText("whsec_")
	rotated := b.post(path+"/rotate-secret", nil).want(http.StatusOK).wantText("The old secret stays valid until")
	if textOf(rotated.all("code")[0]) == secret {
		t.Error("the secret is the old one")
	}
	b.post(path+"/delete", nil).wantLocation("/alerts")
	b.get(path).want(http.StatusNotFound)
}

func TestAlertForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	for field, value := range map[string]string{
		"type": "x", "pass_rate": "101", "sensitivity": "x", "channel": "x", "address": "no-url",
		"skill": "0192d2b4-6a1e-7cc3-9d53-0a8f6a3d2f10",
	} {
		form := alertOn("https://hooks.example.org/x")
		form.Set(field, value)
		b.post("/alerts", form).want(http.StatusBadRequest)
	}
	for _, told := range []struct{ address, text string }{
		{"", "Enter an address for the channel Webhook"}, {"no-url", "The address must be an http or https URL with a host"},
	} {
		page := b.post("/alerts", alertOn(told.address)).want(http.StatusBadRequest).wantText(told.text)
		if n := strings.Count(page.body, told.text); n != 1 || strings.Contains(page.body, "config.") {
			t.Errorf("%q is told %d times, or with the API's names:\n%s", told.text, n, page.body)
		}
	}
	form := alertOn("https://hooks.example.org/" + payload)
	form.Set("action", "rollback")
	page := b.post("/alerts", form).want(http.StatusBadRequest).wantText("Rolling back needs an alert on the pass rate of a single skill").wantInert()
	if got := attr(page.all("input#address")[0], "value"); got != form.Get("address") {
		t.Errorf("the form comes back with %q", got)
	}
	if all := b.api.Get("/api/v1/alerts").Want(http.StatusOK).List("alerts"); len(all) != 0 {
		t.Errorf("alerts were made: %v", all)
	}
}

// TestManySkills: forms suggest the first 1,000 skills, say so, and take any other.
func TestManySkills(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	var invocations []object
	for n := range 1_001 {
		invocations = append(invocations, object{
			"skill_invocation_id": fmt.Sprint(n), "session_id": fmt.Sprint(n), "skill_name": fmt.Sprintf("skill-%04d", n),
			"occurred_at": time.Now().UTC().Format(time.RFC3339), "triggered": true,
		})
	}
	b.api.Post("/api/v1/push", object{
		"schema_version": "2.0", "push_id": "many", "canonical": object{"skill_invocations": invocations},
	}).Want(http.StatusCreated)
	source := b.upload("mine", map[string]string{"SKILL.md": sourceText})
	for _, path := range []string{"/alerts/new", source} {
		p := b.get(path).want(http.StatusOK).wantText("The list has the first 1 000 of 1 001 skills. Any other can be typed.")
		isLast := func(o *html.Node) bool { return attr(o, "value") == "skill-1000" }
		if options := p.all("option"); slices.ContainsFunc(options, isLast) {
			t.Errorf("%s suggests all %d skills", path, len(options))
		}
	}
	form := alertOn("https://hooks.example.org/x")
	form.Set("skill", "skill-1000")
	b.post("/alerts", form).want(http.StatusOK)
	b.get("/alerts").wantText("skill-1000")
	b.post(source, url.Values{"label": {"mine"}, "skill": {"skill-1000"}}).wantLocation(source)
	b.get(source).wantText("Linked skill skill-1000")
	b.post(source, url.Values{"label": {"mine"}, "skill": {"skill-1001"}}).want(http.StatusBadRequest).
		wantText("There is no skill of this name")
}

func TestAlertPreview(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	now := time.Now()
	day := func(ago int) time.Time { return now.Add(-time.Duration(ago) * 24 * time.Hour) }
	for ago := 40; ago > 10; ago-- {
		b.sessions("falls", day(ago), 1, 1, 1)
	}
	for ago := 10; ago >= 0; ago-- {
		b.sessions("falls", day(ago), 0, 0, 0)
	}
	b.sessions("few", day(20), 0, 0, 0, 0)
	b.sessions("silent", day(60), 1)
	b.sessions("silent", day(30), 1)
	form := alertOn("https://hooks.example.org/x")
	date := func(ago int) string { return day(ago).UTC().Format(time.DateOnly) }

	b.post("/alerts/preview", form).want(http.StatusOK).wantText("fired once, for 1 of 3 skills", "falls", "since "+date(9)).
		wantNoText("few 0")
	form.Set("sensitivity", "confident")
	b.post("/alerts/preview", form).want(http.StatusOK).wantText("fired once, for 1 of 3 skills", "since "+date(8))
	form.Set("skill", "few")
	page := b.post("/alerts/preview", form).want(http.StatusOK).wantText("it would not have fired", "few never")
	if got := len(page.all("figure.firings")); got != 1 {
		t.Errorf("%d charts, want 1", got)
	}
	form.Set("type", "no_data")
	form.Set("skill", b.skillID("silent"))
	page = b.post("/alerts/preview", form).want(http.StatusOK).
		wantText("it would have fired 2 times", date(53)+" to "+date(31)+"; since "+date(23))
	if got := countOf(page, "rect", "span"); got != 2 {
		t.Errorf("%d spans are drawn, want 2", got)
	}
	form.Set("days", "0")
	b.post("/alerts/preview", form).want(http.StatusOK).wantText(date(59) + " to " + date(31) + "; since " + date(29))
	form.Set("days", "")
	b.post("/alerts/preview", form).want(http.StatusOK).wantText("The preview appears when the condition is complete")
	b.get("/alerts/new?skill=" + b.skillID("falls")).want(http.StatusOK).wantText("it would have fired once")
}

// countOf counts elements of a class in a picture.
func countOf(p *page, tag, class string) int {
	n := 0
	for _, e := range p.all(tag) {
		if e.Type == html.ElementNode && attr(e, "class") == class {
			n++
		}
	}
	return n
}

func TestAlertFiring(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	b.post("/alerts", alertOn("https://hooks.invalid/x")).want(http.StatusOK)
	path := b.onlyAlert()
	b.sessions(payload, time.Now(), make([]float64, 20)...)
	apptest.Eventually(t, "the alert to fire", func() bool {
		return len(b.api.Get("/api/v1/alert-events").Want(http.StatusOK).List("events")) > 0
	})
	b.get("/alerts").want(http.StatusOK).wantText("■ firing", payload[2:20]).wantInert()
	page := b.get(path).want(http.StatusOK).wantText("Firing for", "0 %", "Last 90 days", "it would have fired once").wantInert()
	if got := len(page.all("figure.firings")); got != 1 {
		t.Errorf("%d charts of the values, want 1", got)
	}
	b.get("/alerts/new").want(http.StatusOK).wantText("it would have fired once").wantInert()
}

func TestAlertAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Member)
	if strings.Contains(b.get("/alerts/new").body, `value="rollback"`) {
		t.Error("a member is offered to roll back")
	}
	b.sessions("pdf", time.Now(), 1)
	form := alertOn("https://hooks.example.org/x")
	form.Set("skill", b.skillID("pdf"))
	form.Set("action", "rollback")
	b.post("/alerts", form).want(http.StatusForbidden).wantText("This needs the permission registry:rollback")
	b.post("/alerts", alertOn("https://hooks.example.org/x")).want(http.StatusOK)
	path := b.onlyAlert()
	viewer, other := w.as(access.Viewer), w.otherOrg(access.Team)
	viewer.get("/alerts").want(http.StatusOK).wantForms().wantNoText("New alert")
	viewer.get(path).want(http.StatusOK).wantForms()
	viewer.get("/alerts/new").want(http.StatusForbidden)
	viewer.post("/alerts", alertOn("https://hooks.example.org/x")).want(http.StatusForbidden)
	viewer.post("/alerts/preview", nil).want(http.StatusForbidden)
	other.get(path).want(http.StatusNotFound)
	other.post("/alerts/preview", form).want(http.StatusOK).wantText("There is no skill of this name")
	for _, suffix := range []string{"", "/enabled", "/test", "/rotate-secret", "/delete"} {
		viewer.post(path+suffix, nil).want(http.StatusForbidden)
		other.post(path+suffix, nil).want(http.StatusNotFound)
		b.do("POST", path+suffix, nil, http.Header{"Sec-Fetch-Site": {"cross-site"}}).want(http.StatusForbidden)
	}
}

// TestRollbackAlertAccess: a member sees an alert that rolls back, and can only send
// a test notification.
func TestRollbackAlertAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	owner, member := w.as(access.Owner), w.as(access.Member)
	owner.sessions("pdf", time.Now(), 1)
	form := alertOn("https://hooks.invalid/x")
	form.Set("skill", owner.skillID("pdf"))
	form.Set("action", "rollback")
	form.Set("sensitivity", "confident")
	owner.post("/alerts", form).want(http.StatusOK)
	path := owner.onlyAlert()
	member.get(path).want(http.StatusOK).wantText("changing it needs the permission to roll back").wantForms(path+"/test", path+"/snooze")
	for suffix, values := range map[string]url.Values{
		"": {"pass_rate": {"100"}, "sensitivity": {"point"}, "channel": {"webhook"}}, "/enabled": {"enabled": {"false"}},
		"/rotate-secret": nil, "/delete": nil,
	} {
		member.post(path+suffix, values).want(http.StatusForbidden).wantText("This needs the permission registry:rollback")
	}
	owner.get(path).want(http.StatusOK).wantText("below 80 %", "Turn off")
	owner.post(path+"/delete", nil).wantLocation("/alerts")
}

// TestPrivateTarget: an address that nothing would be sent to is refused in the form.
func TestPrivateTarget(t *testing.T) {
	t.Parallel()
	b := newWorld(t, "sqlite").as(access.Owner)
	for _, address := range []string{"http://127.0.0.1:1/x", "http://10.0.0.1/", "http://[::1]/"} {
		b.post("/alerts", alertOn(address)).want(http.StatusBadRequest).wantText("Enter a public address")
	}
	b.post("/alerts", alertOn("https://hooks.example.org/x")).want(http.StatusOK)
	b.post(b.onlyAlert(), alertOn("http://10.0.0.1/")).want(http.StatusBadRequest).wantText("Enter a public address")
}

// TestAcknowledgedAlert: the page says who acknowledged an alert, which can be done once.
func TestAcknowledgedAlert(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite", "--allow-private-targets", "--alert-interval", "1s")
	b := w.as(access.Owner)
	b.sessions("pdf", time.Now(), 0, 0, 0, 0, 0)
	b.post("/alerts", alertOn("http://127.0.0.1:1/x")).want(http.StatusOK)
	path := b.onlyAlert()
	for len(b.api.Get("/api/v1/alert-events").Want(http.StatusOK).List("events")) == 0 {
		time.Sleep(20 * time.Millisecond)
	}
	b.get(path).want(http.StatusOK).wantText("pdf since", "Acknowledge").wantNoText("acknowledged by")
	b.post(path+"/ack", nil).wantLocation(path)
	b.get(path).want(http.StatusOK).wantText("acknowledged by").
		wantForms(path+"/test", path+"/snooze", path+"/enabled", path+"/rotate-secret", path+"/delete", path).wantNoText("Acknowledge")
}

// TestIncidents shows a rollback by an alert.
func TestIncidents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite", "--allow-private-targets", "--alert-interval", "1s")
	b := w.as(access.Owner)
	b.get("/incidents").want(http.StatusOK).wantText("No incidents")
	id := b.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", "First")})
	b.sessions("pdf", time.Now(), 1, 1, 1, 1, 1)
	b.push("pdf", "1.1.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", "Second")})
	b.api.Post("/api/v1/registry/"+id+"/install", object{"device_id": "<laptop>"}).Want(http.StatusOK)
	b.sessions("pdf", time.Now(), 0, 0, 0, 0, 0)
	skill := b.api.Get("/v1/skills/pdf").Want(http.StatusOK).Text("skill", "skill_id")
	b.api.Post("/api/v1/alerts", object{
		"type": "pass_rate_below", "skill_id": skill, "action": "rollback", "sensitivity": "confident",
		"channel": "webhook", "config": object{"webhook_url": "http://127.0.0.1:1/x"},
	}).Want(http.StatusCreated)
	var all []object
	for len(all) == 0 {
		all = b.api.Get("/api/v1/incidents").Want(http.StatusOK).List("incidents")
		time.Sleep(20 * time.Millisecond)
	}
	path := "/incidents/" + all[0]["id"].(string)
	b.get("/incidents?state=open").want(http.StatusOK).wantText("pdf 1.1.0", "1.0.0", "open")
	b.get("/incidents?state=closed").want(http.StatusOK).wantText("No incidents")
	b.get(path).want(http.StatusOK).wantText("Version 1.1.0 was rolled back; 1.0.0 is current", "<laptop>", "Not from a repository").wantInert()
	if got, want := b.get(path).href("Failed sessions of 1.1.0"), "/sessions?outcome=fail&skill="+skill+"&version=1.1.0"; got != want {
		t.Errorf("the failed sessions are at %s, want %s", got, want)
	}
	// Nothing listens at the address of the alert.
	for !strings.Contains(textOf(b.get(path).doc), "▲ retrying") {
		time.Sleep(20 * time.Millisecond)
	}
	b.get(path).want(http.StatusOK).wantText("Notifications", "connection refused", "all deliveries of the alert").wantNoText("channel got")
	w.Exec("UPDATE alert_deliveries SET status = 'failed', detail = 'no mail server is configured'")
	b.get(path).want(http.StatusOK).wantText("■ failed no mail server is configured").wantNoText("retrying")
	w.otherOrg(access.Team).get(path).want(http.StatusNotFound)
}
