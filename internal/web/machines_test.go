package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth/serviceaccounts"
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
		form := url.Values{"name": {"CI"}, "holder": {"account:" + a.ID}, "networks": {"10.0.0.0/8\r\n2001:db8::1"}}
		admin.post("/settings/keys", form).want(http.StatusOK).wantText("10.0.0.0/8, 2001:db8::1/128", "deploy-bot")
		form.Set("networks", "<b>nonsense")
		admin.post("/settings/keys", form).want(http.StatusBadRequest).wantText("must be a network like 10.0.0.0/8")
		form.Set("networks", "")
		form.Set("holder", "account:"+admin.api.User.ID)
		admin.post("/settings/keys", form).want(http.StatusBadRequest).wantText("no service account has this id")
	})
}
