package web

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
)

const accountsPath = "/settings/service-accounts"

// accountPath is the page of a service account.
func accountPath(id string) string { return accountsPath + "/" + url.PathEscape(id) }

// A serviceAccountList is the page of service accounts.
type serviceAccountList struct {
	Size
	Accounts []serviceaccounts.Account
	Roles    []access.Role // that the caller may give
	Form     serviceAccountForm
}

// A serviceAccountForm is the input of the form of a new service account.
type serviceAccountForm struct {
	Name string      `form:"name"`
	Role access.Role `form:"role,raw"`
}

// A serviceAccountView is the page of a service account. Permissions are those that
// the caller has, too: nobody can give more.
type serviceAccountView struct {
	serviceaccounts.Account
	Size             // of the keys
	Changeable  bool // by the caller
	Roles       []access.Role
	Rows        []keyRow
	Permissions []access.Permission
	Form        keyForm
	Until       *time.Time // see KeyList
	Made        *madeKey
}

// serviceAccounts returns the requested page of service accounts, or creates the one of a form.
func (s *Service) serviceAccounts(ctx context.Context, c access.Caller, r *http.Request, l tableRequest) (out formResult,
	err error,
) {
	view := serviceAccountList{
		Size: Size{PerPage: peopleShown}, Roles: accountRoles(c),
		Form: serviceAccountForm{Role: access.DefaultRole},
	}
	if r.Method == http.MethodPost {
		view.Form = decodeForm[serviceAccountForm](r)
		a, problem := s.Accounts.Create(ctx, c, view.Form.Name, view.Form.Role)
		if problem == nil {
			return formResult{To: accountPath(a.ID), Message: "The service account " + a.Name +
				" was created. Now create a key for it."}, nil
		}
		out.Problem = problem
	}
	view.Accounts, view.Total, err = s.Accounts.List(ctx, c.OrgID, serviceaccounts.Page{Page: l.Rows(peopleShown)})
	out.Title, out.View = "Service accounts", view
	return out, err
}

// accountRoles are the roles of service accounts that the caller may give. No
// machine can be an owner: owners must be people.
func accountRoles(c access.Caller) []access.Role {
	return slices.DeleteFunc(access.Roles(), func(r access.Role) bool { return r == access.Owner || !auth.MayGive(c, r) })
}

// serviceAccount returns the page of a service account, or does what a form on it asks for. A
// new key is shown by the page itself: a redirect would have to carry it.
func (s *Service) serviceAccount(ctx context.Context, c access.Caller, r *http.Request, l tableRequest) (out formResult,
	err error,
) {
	id := r.PathValue("id")
	var form keyForm
	var made *madeKey
	if r.Method == http.MethodPost {
		// A new key is shown on the page; all else redirects.
		if r.FormValue("action") == "key" {
			form = decodeForm[keyForm](r)
			form.Holder = "account:" + id
			made, out.Problem = s.createKey(ctx, c, form)
		} else {
			message, problem := s.changeAccount(ctx, c, id, r)
			if problem == nil {
				return formResult{To: accountPath(id), Message: message}, nil
			}
			out.Problem = problem
		}
	}
	view, err := s.account(ctx, c, id, l)
	if view.Made = made; out.Problem != nil && form.Holder != "" {
		view.Form = form
	}
	out.Title, out.View = view.Name, view
	return out, err
}

// A deleted account is still shown, for the record, and can no longer be changed.
func (s *Service) account(ctx context.Context, c access.Caller, id string, l tableRequest) (view serviceAccountView, err error) {
	if view.Account, err = s.Accounts.Get(ctx, c.OrgID, id); err != nil {
		return view, err
	}
	view.Roles = accountRoles(c)
	view.Changeable = view.RemovedAt == nil && auth.MayGive(c, view.Role)
	view.Permissions = slices.DeleteFunc(slices.Clone(view.Role.Permissions()),
		func(have access.Permission) bool { return !c.May(have) })
	policy, err := keyrules.Load(ctx, s.Auth.DB, c.OrgID)
	if err != nil {
		return view, err
	}
	if view.Form.Days, view.Until, err = s.expiry(ctx, c, policy); err != nil {
		return view, err
	}
	found, total, err := s.Auth.KeysOf(ctx, c.OrgID, id, l.Rows(peopleShown))
	if err != nil {
		return view, err
	}
	view.Size = Size{Total: total, PerPage: peopleShown}
	view.Rows, err = s.keys(ctx, c, found, []auth.User{view.User}, policy)
	return view, err
}

// changeAccount does what the button says, and returns the message for the page.
func (s *Service) changeAccount(ctx context.Context, c access.Caller, id string, r *http.Request) (string, error) {
	switch r.FormValue("action") {
	case "change":
		change := serviceaccounts.Change{Name: strings.TrimSpace(r.FormValue("name")), Role: access.Role(r.FormValue("role"))}
		return "The service account was changed. Its keys follow within 5 seconds.", s.Accounts.Update(ctx, c, id, change)
	case "networks":
		list, err := keyrules.ParseAllowList(strings.Fields(r.FormValue("networks")))
		if err != nil {
			return "", err
		}
		k, err := s.Auth.Key(ctx, c.OrgID, r.FormValue("key"))
		// The key comes from the form, and could be anyone's.
		if err == nil && k.UserID != id {
			err = fault.New(fault.NotFound, "Key not found")
		}
		if err != nil {
			return "", err
		}
		_, err = s.Accounts.UpdateKey(ctx, c, k.ID, serviceaccounts.KeyChange{AllowedIPs: &list})
		return "The networks of the key " + k.Name + " were changed.", err
	}
	return "", fault.Invalid("action", "action must be key, change or networks")
}

// deleteAccount deletes a service account.
func (s *Service) deleteAccount(ctx context.Context, c access.Caller, r *http.Request) (formResult, error) {
	// With "made" also the keys go that its keys have created.
	err := s.Accounts.Delete(ctx, c, r.PathValue("id"), r.FormValue("made") == "true")
	return formResult{To: accountsPath, Message: "The service account was deleted. Its keys have ended; what it made stays."}, err
}
