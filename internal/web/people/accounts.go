package people

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/keyrules"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/serviceaccounts"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/web/listing"
)

const accountsPath = "/settings/service-accounts"

func accountPath(id string) string { return accountsPath + "/" + url.PathEscape(id) }

// An AccountList is the page of service accounts.
type AccountList struct {
	listing.Size
	Accounts []serviceaccounts.Account
	Roles    []access.Role // that the caller may give
	Form     AccountForm
}

// An AccountForm is the input of the form of a new service account.
type AccountForm struct {
	Name string
	Role access.Role
}

// An AccountView is the page of a service account.
type AccountView struct {
	serviceaccounts.Account
	listing.Size      // of the keys
	Changeable   bool // by the caller
	Roles        []access.Role
	Rows         []Key
	Permissions  []access.Permission
	Form         KeyForm
	Until        *time.Time // see KeyList
	Made         *MadeKey
}

// Accounts returns the requested page of service accounts, or creates the one of a form.
func (p Pages) Accounts(ctx context.Context, c access.Caller, r *http.Request, l listing.Request) (out Result, err error) {
	view := AccountList{Size: listing.Size{PerPage: Shown}, Roles: accountRoles(c), Form: AccountForm{Role: access.DefaultRole}}
	if r.Method == http.MethodPost {
		view.Form = AccountForm{strings.TrimSpace(r.FormValue("name")), access.Role(r.FormValue("role"))}
		a, problem := p.AccountService.Create(ctx, c, view.Form.Name, view.Form.Role)
		if problem == nil {
			return Result{To: accountPath(a.ID), Message: "The service account " + a.Name + " was created. Now create a key for it."}, nil
		}
		out.Problem = problem
	}
	view.Accounts, view.Total, err = p.AccountService.List(ctx, c.OrgID, serviceaccounts.Page{Sort: l.Sort(), Limit: Shown, Offset: l.Offset(Shown)})
	out.Title, out.View = "Service accounts", view
	return out, err
}

// accountRoles are the roles of service accounts that the caller may give.
func accountRoles(c access.Caller) []access.Role {
	return slices.DeleteFunc(access.Roles(), func(r access.Role) bool { return r == access.Owner || !auth.MayGive(c, r) })
}

// Account returns the page of a service account, or does what a form on it asks for. A
// new key is shown by the page itself: a redirect would have to carry it.
func (p Pages) Account(ctx context.Context, c access.Caller, r *http.Request, l listing.Request) (out Result, err error) {
	id := r.PathValue("id")
	var form KeyForm
	var made *MadeKey
	if r.Method == http.MethodPost {
		if r.FormValue("action") == "key" {
			form = newKeyForm(r)
			form.Holder = "account:" + id
			made, out.Problem = p.createKey(ctx, c, form)
		} else {
			message, problem := p.changeAccount(ctx, c, id, r)
			if problem == nil {
				return Result{To: accountPath(id), Message: message}, nil
			}
			out.Problem = problem
		}
	}
	view, err := p.account(ctx, c, id, l)
	if view.Made = made; out.Problem != nil && form.Holder != "" {
		view.Form = form
	}
	out.Title, out.View = view.Name, view
	return out, err
}

func (p Pages) account(ctx context.Context, c access.Caller, id string, l listing.Request) (view AccountView, err error) {
	if view.Account, err = p.AccountService.Get(ctx, c.OrgID, id); err != nil {
		return view, err
	}
	view.Roles = accountRoles(c)
	view.Changeable = view.RemovedAt == nil && auth.MayGive(c, view.Role)
	view.Permissions = slices.DeleteFunc(slices.Clone(view.Role.Permissions()), func(have access.Permission) bool { return !c.May(have) })
	policy, err := keyrules.Load(ctx, p.Auth.DB, c.OrgID)
	if err != nil {
		return view, err
	}
	if view.Form.Days, view.Until, err = p.expiry(ctx, c, policy); err != nil {
		return view, err
	}
	found, total, err := p.Auth.KeysOf(ctx, c.OrgID, id, l.Rows(Shown))
	if err != nil {
		return view, err
	}
	view.Size = listing.Size{Total: total, PerPage: Shown}
	view.Rows, err = p.keys(ctx, c, found, []auth.User{view.User}, policy)
	return view, err
}

func (p Pages) changeAccount(ctx context.Context, c access.Caller, id string, r *http.Request) (string, error) {
	switch r.FormValue("action") {
	case "change":
		change := serviceaccounts.Change{Name: strings.TrimSpace(r.FormValue("name")), Role: access.Role(r.FormValue("role"))}
		return "The service account was changed. Its keys follow within 5 seconds.", p.AccountService.Update(ctx, c, id, change)
	case "networks":
		list, err := keyrules.ParseAllowList(strings.Fields(r.FormValue("networks")))
		if err != nil {
			return "", err
		}
		k, err := p.Auth.Key(ctx, c.OrgID, r.FormValue("key"))
		if err == nil && k.UserID != id {
			err = fault.New(fault.NotFound, "Key not found")
		}
		if err != nil {
			return "", err
		}
		_, err = p.AccountService.UpdateKey(ctx, c, k.ID, serviceaccounts.KeyChange{AllowedIPs: &list})
		return "The networks of the key " + k.Name + " were changed.", err
	}
	return "", fault.Invalid("action", "action must be key, change or networks")
}

// DeleteAccount deletes a service account.
func (p Pages) DeleteAccount(ctx context.Context, c access.Caller, r *http.Request) (Result, error) {
	err := p.AccountService.Delete(ctx, c, r.PathValue("id"), r.FormValue("made") == "true")
	return Result{To: accountsPath, Message: "The service account was deleted. Its keys have ended; what it made stays."}, err
}
