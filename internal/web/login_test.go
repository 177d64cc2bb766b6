package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

func now() time.Time { return time.Now() }

func TestSignIn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		b := w.browser()
		b.get("/").wantLocation("/login?next=%2F")
		b.get("/skills?q=a%20b").wantLocation("/login?next=%2Fskills%3Fq%3Da%2520b")
		form := b.get("/login?next=/skills").want(http.StatusOK)
		if got := attr(form.all("input#api_key")[0], "name"); got != "api_key" {
			t.Errorf("the field is called %q", got)
		}
		b.post("/login", url.Values{"api_key": {"st_live_" + strings.Repeat("x", 43)}}).want(http.StatusUnauthorized).
			wantText("Unknown API key")
		b.post("/login", nil).want(http.StatusUnauthorized)

		raw := w.Member(w.org, access.Member).Key
		p := b.post("/login", url.Values{"api_key": {" " + raw + " "}, "next": {"/skills"}}).wantLocation("/skills")
		cookie := p.Header.Get("Set-Cookie")
		if !regexp.MustCompile(`^whetstone_session=[0-9A-Za-z]{43}; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax$`).MatchString(cookie) {
			t.Errorf("the cookie is %q", cookie)
		}
		b.get("/").want(http.StatusOK)
		b.get("/login?next=/skills").wantLocation("/skills")
		if log := w.Logged.String(); strings.Contains(log, raw) {
			t.Error("the log has the key")
		}
	})
}

// TestSignInLeadsNowhereElse: the login is no open redirect to another site.
func TestSignInLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	raw := w.Member(w.org, access.Member).Key
	for _, next := range []string{"https://evil.example/", "//evil.example/", "/\\evil.example", "evil", "", "/\tx", "javascript:alert(1)"} {
		w.browser().post("/login", url.Values{"api_key": {raw}, "next": {next}}).wantLocation("/")
	}
}

// TestSecureCookie: where the connection is safe, no other host of the domain can
// plant a cookie that the server accepts.
func TestSecureCookie(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite", "--public-url", "https://whetstone.example.org")
	raw := w.Member(w.org, access.Member).Key
	for path, name := range map[string]string{
		"/login": "session", "/login/device": "device", "/logout": "flash",
	} {
		got := w.browser().post(path, url.Values{"api_key": {raw}}).Header.Values("Set-Cookie")
		wanted := regexp.MustCompile(`^__Host-whetstone_` + name + `=[\w-]+; Path=/; Max-Age=\d+; HttpOnly; Secure; SameSite=Lax$`)
		if !slices.ContainsFunc(got, wanted.MatchString) {
			t.Errorf("POST %s sets %q", path, got)
		}
	}
	// A cookie that was planted under the plain name is ignored.
	d, err := w.Auth.StartDevice(t.Context(), "planted", "")
	if err != nil {
		t.Fatal(err)
	}
	planted := http.Header{"Cookie": {"whetstone_device=" + d.DeviceCode + "; whetstone_flash=RXZpbA"}}
	w.browser().do(http.MethodGet, "/login/device", nil, planted).wantLocation("/login")
	w.browser().do(http.MethodGet, "/login", nil, planted).wantNoText("Evil")
}

func TestSignInIsLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.browser()
	limited := func() bool {
		return b.post("/login", url.Values{"api_key": {"st_live_guess"}}).StatusCode == http.StatusTooManyRequests
	}
	for range 50 { // twice the limit, in case a minute ends on the way
		if limited() {
			// A valid key can sign in, whatever others behind the same
			// address got wrong.
			raw := w.Member(w.org, access.Member).Key
			b.post("/login", url.Values{"api_key": {raw}}).wantLocation("/")
			return
		}
	}
	t.Error("50 attempts were answered")
}

// TestPublicPagesAreLimited: behind a trusted proxy each client has its own
// limit, whatever it says of itself.
func TestPublicPagesAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite", "--trusted-proxies", "127.0.0.0/8")
	ask := func(from string) int {
		req, err := http.NewRequest(http.MethodGet, w.URL+"/login/device", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", "203.0.113.99, "+from)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	for i := 0; ask("203.0.113.1") != http.StatusTooManyRequests; i++ {
		if i == 1200 {
			t.Fatalf("%d requests were answered", i)
		}
	}
	if status := ask("203.0.113.2"); status == http.StatusTooManyRequests {
		t.Error("one client's requests counted against another")
	}
}

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		b := w.as(access.Owner)
		copied := w.browser()
		at, err := url.Parse(w.URL)
		if err != nil {
			t.Fatal(err)
		}
		copied.client.Jar.SetCookies(at, b.client.Jar.Cookies(at))
		copied.get("/account").want(http.StatusOK)
		b.post("/logout", nil).wantLocation("/login")
		b.get("/login").want(http.StatusOK).wantText("You are signed out.")
		b.get("/login").wantNoText("You are signed out.")
		copied.get("/account").wantLocation("/login?next=%2Faccount")

		// Signing in again makes the old token worthless.
		b.post("/login", url.Values{"api_key": {b.api.Key}}).wantLocation("/")
		copied.client.Jar.SetCookies(at, b.client.Jar.Cookies(at))
		b.post("/login", url.Values{"api_key": {b.api.Key}}).wantLocation("/")
		copied.get("/account").wantLocation("/login?next=%2Faccount")

		// So does revoking the key.
		if err := w.Auth.RevokeKey(t.Context(), w.org.ID, b.api.KeyID); err != nil {
			t.Fatal(err)
		}
		b.get("/account").wantLocation("/login?next=%2Faccount")
		b.post("/account/sessions/x/end", nil).want(http.StatusUnauthorized).wantText("Please sign in")
	})
}

func TestAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b, stranger := w.as(access.AdminRole), w.as(access.AdminRole)
	second := w.browser()
	second.post("/login", url.Values{"api_key": {b.api.Key}}).wantLocation("/")
	page := b.get("/account").wantText("admin-", "this one", "registry:rollback", "team plan")
	var others []string
	for _, form := range page.all("form") {
		if action := attr(form, "action"); strings.HasPrefix(action, "/account/sessions/") && strings.HasPrefix(textOf(form), "End") {
			others = append(others, action)
		}
	}
	if len(others) != 1 {
		t.Fatalf("other sessions: %q", others)
	}
	stranger.post(others[0], nil).want(http.StatusNotFound).wantText("Session not found")
	second.get("/account").want(http.StatusOK)
	b.post(others[0], nil).wantLocation("/account")
	b.get("/account").wantText("The session was ended.")
	second.get("/account").wantLocation("/login?next=%2Faccount")

	// A narrowed key of the same person does not see where else they are.
	narrow := w.WithKey(b.api.Org, b.api.User, auth.NewKey{Name: "narrow", Permissions: []access.Permission{access.Read}})
	second.post("/login", url.Values{"api_key": {narrow.Key}}).wantLocation("/")
	if rows := second.get("/account").wantText("this one").all("tr"); len(rows) != 2 {
		t.Errorf("a narrowed key sees %d rows, want the head and its own session", len(rows))
	}
	b.get("/account").wantText("narrow")
}

func TestDeviceApproval(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		b := w.as(access.Member)
		waiting := func() auth.DeviceLogin {
			d, err := w.Auth.StartDevice(t.Context(), "<b>cli</b>", "")
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		status := func(d auth.DeviceLogin) auth.DeviceStatus {
			r, err := w.Auth.PollDevice(t.Context(), d.DeviceCode)
			if err != nil {
				t.Fatal(err)
			}
			return r.Status
		}
		approved, denied, refused := waiting(), waiting(), waiting()
		b.get("/device?code=nonsense").want(http.StatusNotFound).wantText("No login waits for this code")
		small := strings.ToLower(strings.ReplaceAll(approved.UserCode, "-", ""))
		b.get("/device?code="+small).want(http.StatusOK).wantText("<b>cli</b>", approved.UserCode, "Approve", "your role, member")
		b.post("/device", url.Values{"code": {approved.UserCode}}).want(http.StatusBadRequest)
		b.post("/device", url.Values{"code": {approved.UserCode}, "answer": {"approve"}}).wantLocation("/device")
		b.post("/device", url.Values{"code": {denied.UserCode}, "answer": {"deny"}}).wantLocation("/device")
		if got := status(approved); got != auth.DeviceApproved {
			t.Errorf("the login is %s, want approved", got)
		}
		if got := status(denied); got != auth.DeviceDenied {
			t.Errorf("the login is %s, want denied", got)
		}

		// A key that may do less than its holder must not make one that may do more.
		narrow := w.as(access.Owner, access.Read)
		narrow.get("/device?code=" + refused.UserCode).want(http.StatusOK).
			wantText("Your key has fewer permissions than the role owner")
		narrow.post("/device", url.Values{"code": {refused.UserCode}, "answer": {"approve"}}).want(http.StatusForbidden).
			wantText("fewer permissions")
		if got := status(refused); got != auth.DevicePending {
			t.Errorf("the login is %s, want pending", got)
		}
		narrow.post("/device", url.Values{"code": {refused.UserCode}, "answer": {"deny"}}).wantLocation("/device")
	})
}

func (p *page) asksAgain() bool { return strings.Contains(p.body, `http-equiv="refresh"`) }

// signInWithCode starts a login in the browser and has it answered in another.
func (b *browser) signInWithCode(other *browser, answer string) {
	b.w.T.Helper()
	b.post("/login/device", url.Values{"next": {"/skills"}}).wantLocation("/login/device?next=%2Fskills")
	page := b.get("/login/device?next=/skills").want(http.StatusOK)
	if !page.asksAgain() {
		b.w.T.Error("the page does not ask again")
	}
	other.post("/device", url.Values{"code": {page.texts("strong")[0]}, "answer": {answer}}).wantLocation("/device")
}

// TestSignInWithCode lets a browser in from another one.
func TestSignInWithCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b, other := w.browser(), w.as(access.Member)
	b.get("/login/device").wantLocation("/login")
	b.post("/login/device/finish", nil).wantLocation("/login")
	b.post("/login/device", nil).wantLocation("/login/device?next=%2F")
	b.post("/login/device/finish", nil).wantLocation("/login/device?next=%2F")
	b.get("/login/device").wantText("The code has not been approved yet.")
	b.signInWithCode(other, "approve")
	page := b.get("/login/device?next=/skills").want(http.StatusOK).wantText("approved the code", "Sign in as member-")
	if page.asksAgain() {
		t.Error("the page asks again, though there is nothing to wait for")
	}
	b.get("/account").wantLocation("/login?next=%2Faccount")
	b.post("/login/device/finish", url.Values{"next": {"/skills"}}).wantLocation("/skills")
	b.get("/account").want(http.StatusOK).wantText("login of")
	b.get("/login/device").wantLocation("/login") // once

	b = w.browser()
	b.signInWithCode(other, "deny")
	b.get("/login/device").want(http.StatusForbidden).wantText("The login was denied")
	b.get("/account").wantLocation("/login?next=%2Faccount")
	b.post("/login/device", nil)
	code := b.get("/login/device").texts("strong")[0]
	other.post("/device", url.Values{"code": {code}, "answer": {"deny"}})
	b.post("/login/device/finish", nil).want(http.StatusForbidden).wantText("The login was denied")
}

// TestCodeKeepsOtherBrowsers: two browsers of the same name sign in with codes of one
// person, and neither ends the other's session; one that does so again has one key.
func TestCodeKeepsOtherBrowsers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		other := w.as(access.Member)
		signIn := func(b *browser) {
			b.signInWithCode(other, "approve")
			b.post("/login/device/finish", nil).wantLocation("/")
		}
		first, second := w.browser(), w.browser()
		signIn(first)
		signIn(second)
		first.get("/account").want(http.StatusOK)
		signIn(first)
		first.get("/account").want(http.StatusOK)
		second.get("/account").want(http.StatusOK)
		rows, err := w.DB.Query(t.Context(), `SELECT COUNT(*) FROM api_keys WHERE login AND revoked_at IS NULL`)
		if n, err := store.One(rows, err, "Count", store.Value[int]); err != nil || n != 2 {
			t.Errorf("%d keys of logins are active, want 2; %v", n, err)
		}
	})
}

// TestLinkChangesNoSession: a person stays signed in until they say
// otherwise, whatever code their browser holds; and the page by itself writes
// nothing.
func TestLinkChangesNoSession(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		victim, attacker := w.as(access.Owner), w.as(access.Member)
		victim.signInWithCode(attacker, "approve")
		rows := func() (n int) {
			t.Helper()
			const all = `SELECT (SELECT COUNT(*) FROM api_keys) + (SELECT COUNT(*) FROM sessions) + (SELECT COUNT(*) FROM audit_entries)
				+ (SELECT COUNT(*) FROM device_codes WHERE status = 'approved')`
			found, err := w.DB.Query(t.Context(), all)
			n, err = store.One(found, err, "Count", store.Value[int])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := rows()
		for range 2 {
			victim.get("/login/device").want(http.StatusOK).
				wantText("You are signed in as owner-", "Signing in as member-", "Stay signed in as owner-")
		}
		if after := rows(); before != after {
			t.Errorf("the page changed %d rows", after-before)
		}
		victim.get("/account").want(http.StatusOK).wantText("owner-").wantNoText("member-")
		victim.do(http.MethodPost, "/login/device/finish", nil, http.Header{"Sec-Fetch-Site": {"cross-site"}}).
			want(http.StatusForbidden)
		victim.get("/account").wantText("owner-")

		victim.post("/login/device/finish", nil).wantLocation("/")
		victim.get("/account").wantText("member-")
	})
}

// TestReportingKeyOpensNoPage: a key that can only report sessions is of no use
// in a browser.
func TestReportingKeyOpensNoPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	raw := w.Member(w.org, access.Owner, access.TelemetryWrite).Key
	b := w.browser()
	b.post("/login", url.Values{"api_key": {raw}}).want(http.StatusForbidden).wantText("This key can only report sessions")
	b.get("/account").wantLocation("/login?next=%2Faccount")
}
