package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// TestWebhooks makes, tests, pauses and deletes an event webhook on its page.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin := w.as(access.AdminRole)
		const path = "/settings/webhooks"
		admin.get(path).want(http.StatusOK).wantText("None yet.")
		admin.post(path, url.Values{"action": {"create"}, "url": {"nowhere"}}).want(http.StatusBadRequest).wantText("URL ", "at least one of")
		form := url.Values{"action": {"create"}, "url": {"http://127.0.0.1:1/secret-path"}, "events": {"version.published"}}
		made := admin.post(path, form).want(http.StatusOK).wantText("whsec_", "http://127.0.0.1:1/…", "not shown again")
		id := regexp.MustCompile(`webhook=([0-9a-f-]{36})`).FindStringSubmatch(made.body)[1]
		if !strings.Contains(strings.Join(strings.Fields(made.body), " "), `value="rotate" data-confirm=`) {
			t.Error("a new secret is made unasked")
		}
		do := func(action string) url.Values { return url.Values{"action": {action}, "webhook": {id}} }
		admin.post(path, do("test")).want(http.StatusOK).wantText("The test did not arrive")
		admin.get(path+"?webhook="+id).want(http.StatusOK).wantText("Deliveries to", "failed")
		admin.post(path, do("pause")).want(http.StatusOK).wantText("is paused")
		admin.post(path, do("resume")).want(http.StatusOK).wantText("again")
		admin.post(path, do("delete")).want(http.StatusOK).wantText("was deleted", "None yet.")
		admin.post(path, do("pause")).want(http.StatusNotFound)
		admin.post(path, do("x")).want(http.StatusNotFound)
	})
}
