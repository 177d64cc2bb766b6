package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/identity/auth/serviceaccounts"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// TestServiceAccountKey makes a key of a service account on the page of keys, limited
// to networks. It cannot sign in.
func TestServiceAccountKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin := w.as(access.AdminRole)
		caller, err := w.Auth.Authenticate(t.Context(), admin.api.Key)
		if err != nil {
			t.Fatal(err)
		}
		a, err := (&serviceaccounts.Service{DB: w.DB, Auth: w.Auth}).Create(t.Context(), caller, "deploy-bot", access.Member)
		if err != nil {
			t.Fatal(err)
		}
		admin.get("/settings/keys").want(http.StatusOK).wantText("the service account deploy-bot")
		admin.get("/settings/members").want(http.StatusOK).wantNoText("deploy-bot")
		form := url.Values{
			"name": {"CI"}, "preset": {"all"}, "holder": {"account:" + a.ID}, "networks": {"10.0.0.0/8\r\n2001:db8::1"},
		}
		admin.post("/settings/keys", form).want(http.StatusOK).wantText("10.0.0.0/8, 2001:db8::1/128", "deploy-bot")
		form.Set("networks", "<b>nonsense")
		admin.post("/settings/keys", form).want(http.StatusBadRequest).wantText("must be a network like 10.0.0.0/8")
		form.Set("networks", "")
		form.Set("holder", "account:"+admin.api.User.ID)
		admin.post("/settings/keys", form).want(http.StatusBadRequest).wantText("no service account has this id")
	})
}

// TestServiceAccounts creates a service account with a key, limits the key, and deletes
// the account, as people do in the settings.
func TestServiceAccounts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin, member := w.as(access.AdminRole), w.as(access.Member)
		const path = "/settings/service-accounts"
		member.get(path).want(http.StatusForbidden)
		checkPage(t, admin.get(path).want(http.StatusOK).wantText("None yet.", "New service account"))
		admin.post(path, url.Values{"name": {"Deploy <b>"}, "role": {"member"}}).want(http.StatusBadRequest).wantText("Name must be 1 to 63")
		admin.post(path, url.Values{"name": {"bot"}, "role": {"owner"}}).want(http.StatusBadRequest)
		one := admin.post(path, url.Values{"name": {"deploy-bot"}, "role": {"member"}}).want(http.StatusSeeOther).Header.Get("Location")
		checkPage(t, admin.get(one).want(http.StatusOK).wantText("Now create a key for it.", "None yet."))
		admin.post(path, url.Values{"name": {"deploy-bot"}, "role": {"member"}}).want(http.StatusConflict)
		checkPage(t, admin.get(path).want(http.StatusOK).wantText("deploy-bot", "member"))

		// The key is shown once.
		admin.post(one, url.Values{"action": {"key"}, "name": {"CI"}, "networks": {"nonsense"}}).want(http.StatusBadRequest).
			wantText("must be a network like 10.0.0.0/8")
		made := admin.post(one, url.Values{"action": {"key"}, "name": {"CI"}, "days": {"30"}, "permission": {"read"}}).
			want(http.StatusOK).wantText("New key CI", "It is not shown again.")
		checkPage(t, made)
		raw := rawKey.FindString(made.body)
		caller, err := w.Auth.Authenticate(t.Context(), raw)
		if err != nil || caller.Name != "deploy-bot" || caller.May(access.Write) {
			t.Fatalf("the key is of %+v, %v", caller, err)
		}
		shown := admin.get(one).want(http.StatusOK).wantText("CI", "active", "read")
		checkPage(t, shown)
		if strings.Contains(shown.body, raw) {
			t.Error("the key is shown again")
		}

		// Its networks, its account's role, and the policy.
		admin.post(one, url.Values{"action": {"networks"}, "key": {caller.KeyID}, "networks": {"10.0.0.0/8 2001:db8::/32"}}).wantLocation(one)
		admin.get(one).wantText("The networks of the key CI were changed.", "10.0.0.0/8, 2001:db8::/32")
		admin.post(one, url.Values{"action": {"networks"}, "key": {admin.api.KeyID}, "networks": {"10.0.0.0/8"}}).want(http.StatusNotFound)
		admin.post(one, url.Values{"action": {"change"}, "name": {"deploy-bot"}, "role": {"viewer"}}).wantLocation(one)
		admin.get(path).wantText("viewer")
		admin.post(one, url.Values{"action": {"explode"}}).want(http.StatusBadRequest)
		for _, bad := range []string{"0", "3651", "x", "99999999999999999999"} {
			admin.post("/settings/key-policy", url.Values{"max_days": {bad}}).want(http.StatusBadRequest).wantText("Max days must be 1 to 3650")
		}
		admin.post("/settings/key-policy", url.Values{"max_days": {"20"}, "networks": {"true"}}).wantLocation("/settings/keys")
		keys := admin.get("/settings/keys").want(http.StatusOK).wantText("The policy of new keys was changed.", "not follow it.", "against the policy")
		checkPage(t, keys)
		admin.post(one, url.Values{"action": {"key"}, "name": {"late"}, "preset": {"all"}, "days": {"21"}, "networks": {"10.0.0.0/8"}}).want(http.StatusBadRequest).
			wantText("Expires at must be within 20 days")
		admin.post("/settings/key-policy", url.Values{"max_days": {""}}).wantLocation("/settings/keys")

		// The key is revoked where it is shown, and the account goes with the rest.
		stranger := w.otherOrg(access.Enterprise)
		stranger.get(one).want(http.StatusNotFound)
		stranger.post(one, url.Values{"action": {"key"}, "name": {"mine"}, "preset": {"all"}}).want(http.StatusNotFound)
		stranger.post(one+"/delete", nil).want(http.StatusNotFound)
		admin.post("/settings/keys/"+caller.KeyID+"/revoke", url.Values{"account": {strings.TrimPrefix(one, path+"/")}}).wantLocation(one)
		admin.get(one).wantText("revoked")
		admin.post("/settings/keys/"+caller.KeyID+"/revoke", url.Values{"account": {"/../..//evil.example"}}).
			wantLocation(path + "/%2F..%2F..%2F%2Fevil.example")
		admin.post(one+"/delete", nil).wantLocation(path)
		admin.get(path).wantText("None yet.")
		admin.get(one).want(http.StatusOK).wantText("deleted").wantNoText("New key")
	})
}
