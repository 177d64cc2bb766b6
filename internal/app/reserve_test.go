package app_test

import (
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/datadir"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// servedWhenFull is what writes and is served all the same when there is no
// room on the disk.
var servedWhenFull = []string{
	"DELETE /api/v1/alerts/{}", "DELETE /api/v1/catalog-tokens/{}", "DELETE /api/v1/cloud-sources/{}",
	"DELETE /api/v1/cloud-sources/{}/eval-suggestions/{}/review", "DELETE /api/v1/content", "DELETE /api/v1/eval-schedules/{}",
	"DELETE /api/v1/eval-suites/{}",
	"DELETE /api/v1/event-webhooks/{}",
	"DELETE /api/v1/invitations/{}", "DELETE /api/v1/keys/{}", "DELETE /api/v1/me/data", "DELETE /api/v1/members/{}",
	"DELETE /api/v1/organization",
	"DELETE /api/v1/registry/{}", "DELETE /api/v1/repohost/connections/{}",
	"DELETE /api/v1/scim-tokens/{}",
	"DELETE /api/v1/service-accounts/{}",
	"DELETE /api/v1/sets/{}",
	"DELETE /api/v1/teams/{}", "DELETE /api/v1/teams/{}/members/{}",
	"DELETE /api/v1/trusted-publishers/{}",
	"POST /account/sessions/{}/end", "POST /alerts/{}/delete",
	"POST /api/v1/comparisons/{}/cancel", "POST /api/v1/device-code", "POST /api/v1/device-code/poll",
	"POST /api/v1/eval-runs/{}/cancel", "POST /api/v1/improve-runs/estimate", "POST /api/v1/improve-runs/{}/cancel",
	"POST /api/v1/me/leave", "POST /api/v1/registry/requirements", "POST /api/v1/registry/resolve", "POST /api/v1/registry/sync",
	"POST /comparisons/{}/cancel", "POST /device", "POST /improve-runs/{}/cancel", "POST /login", "POST /login/device", "POST /login/device/finish",
	"POST /logout", "POST /registry/lock-file", "POST /registry/{}/delete", "POST /registry/{}/publishers/{}/delete",
	"POST /repohost/connections/{}/delete", "POST /runs/{}/cancel", "POST /settings/catalog/{}/delete",
	"POST /settings/keys/{}/revoke", "POST /settings/members/invitations/{}/revoke", "POST /settings/members/{}/remove",
	"POST /settings/provisioning/{}/delete",
	"POST /settings/service-accounts/{}/delete", "POST /settings/teams/{}/delete",
	"POST /sources/{}/delete", "POST /suites/{}/delete", "POST /theme",
	"PUT /api/v1/settings/content", // keeps less
}

var pathParameter = regexp.MustCompile(`\{[^}]*\}`)

// TestDiskReserve has a disk whose reserve is touched: whoever makes room gets
// in and can do it, and nothing else writes.
func TestDiskReserve(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		var free atomic.Uint64
		free.Store(100 << 30)
		h := newHouse(t, flags, func(o *app.Options) {
			o.Space = func(string) (uint64, uint64, error) { return free.Load(), 200 << 30, nil }
		})
		h.ids["entry"] = h.publish("/api/v1/registry", h.FirstKey, "1.0.0").Text("entry", "id")

		free.Store(512<<20 - 1)
		session := h.signIn()
		apptest.Eventually(h.t, "the reserve is noticed", func() bool { return h.publish("/api/v1/registry", h.FirstKey, "2.0.0").Status == 503 })
		var served []string
		for _, r := range slices.Concat(h.Routes(), h.Pages()) {
			path := pathParameter.ReplaceAllString(r.Path, "{}")
			headers, page := []string{
				"Content-Type: application/json", "Authorization: Bearer " + h.FirstKey,
				"X-Hub-Signature-256: sha256=" + strings.Repeat("0", 64), // for what a code host sends
			}, false
			if !strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/v1/") {
				headers, page = []string{"Content-Type: application/x-www-form-urlencoded", "Cookie: " + session}, true
			}
			if r.Path == "/logout" { // it would end the others' session
				headers = headers[:1]
			}
			a := h.as("").Do(r.Method, strings.ReplaceAll(path, "{}", uuid.NewString()), nil, headers...)
			refused := strings.Contains(string(a.Body), "disk is almost full")
			if r.Method == http.MethodGet && (refused || a.Status >= 500) {
				t.Errorf("GET %s: %d %s", r.Path, a.Status, a.Body)
			}
			retry := a.Header.Get("Retry-After")
			if refused && (a.Status != http.StatusServiceUnavailable || retry != "30" && !page) {
				t.Errorf("%s %s: %d, Retry-After %q", r.Method, r.Path, a.Status, retry)
			}
			if r.Method != http.MethodGet && !refused {
				served = append(served, r.Method+" "+path)
			}
		}
		slices.Sort(served)
		if diff := cmp.Diff(servedWhenFull, slices.Compact(served)); diff != "" {
			t.Errorf("served when full (-want +got):\n%s", diff)
		}
		if a := h.as(h.FirstKey).Do("DELETE", h.fill("/api/v1/registry/{entry}"), nil); a.Status != http.StatusNoContent {
			t.Errorf("delete: %d %s", a.Status, a.Body)
		}

		free.Store(100 << 30)
		apptest.Eventually(h.t, "there is room again", func() bool { return h.publish("/api/v1/registry", h.FirstKey, "1.0.0").Status == 201 })
		if _, body := h.get(t, "/metrics", ""); !strings.Contains(body, `whetstone_disk_bytes{what="reserve"} 5.36870912e+08`) {
			t.Error("the metrics do not have the reserve")
		}
	})
}

// signIn returns the cookie of a new session.
func (h *house) signIn() string {
	h.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.PostForm(h.url+"/login", url.Values{"api_key": {h.FirstKey}})
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	cookie, _, _ := strings.Cut(res.Header.Get("Set-Cookie"), ";")
	if cookie == "" {
		h.t.Fatalf("sign in: %d", res.StatusCode)
	}
	return cookie
}

// TestReserveOf is how much is kept free.
func TestReserveOf(t *testing.T) {
	for _, c := range []struct {
		flags []string
		free  uint64
		total uint64
		want  bool
	}{
		{nil, 512 << 20, 100 << 30, true},
		{nil, 512<<20 - 1, 100 << 30, false},
		{nil, 3 << 20, 48 << 20, true}, // a twentieth of a small disk
		{nil, 2 << 20, 48 << 20, false},
		{[]string{"--disk-reserve", "0"}, 0, 100 << 30, true},
		{[]string{"--disk-reserve", "2GiB"}, 1 << 30, 100 << 30, false},
		{[]string{"--database-url", "postgres://elsewhere/w", "--blob-url", "s3://elsewhere"}, 0, 100 << 30, true},
	} {
		settings := settings(t, c.flags...)
		disk := datadir.Reserve{
			Dir: settings.Data, Size: settings.ReserveBytes(), Log: slog.New(slog.DiscardHandler),
			Space: func(string) (uint64, uint64, error) { return c.free, c.total, nil },
		}
		if got := disk.HasRoom(); got != c.want {
			t.Errorf("%v, %d of %d bytes are free: %v, want %v", c.flags, c.free, c.total, got, c.want)
		}
	}
}
