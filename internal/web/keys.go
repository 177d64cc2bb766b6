package web

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/auth/keyrules"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

// keysView lists the organisation's keys, with the form of a new one.
type keysView struct {
	Keys           []keyView
	Total, PerPage int
	Form           keyForm
	Roles          []access.Role // that the caller may give to machines
	Accounts       []auth.User   // service accounts
	Permissions    []access.Permission
	Made           *madeKey   // just created
	Until          *time.Time // when the caller's key expires, and keys that it creates
}

type keyView struct {
	auth.Key
	Holder     string
	State      string // active, expired or revoked
	Own        bool   // the caller's session uses it
	Revocable  bool   // by the caller
	Made       int    // active keys that were created with it, directly or indirectly
	RevokeMade bool   // only those are left to revoke
	Violates   []string
}

// A madeKey is a new key, which is shown once.
type madeKey struct{ Name, Raw string }

// keyForm is the input of the form of a new key.
type keyForm struct {
	Name        string
	Holder      string // "" for the caller, "account:" and the id of a service account, or the role of a machine user
	Permissions []access.Permission
	Days        string // "" if it does not expire
	Networks    string // from which it works, separated by white space
}

const (
	// keysShown is how many keys a page lists.
	keysShown  = 50
	maxKeyDays = 3650
)

func (s *Service) handleKeys(v *visit) (answer, error) {
	view, err := s.keyList(v)
	return show("settings_keys", "Keys", view), err
}

func (s *Service) keyList(v *visit) (view keysView, err error) {
	view = keysView{PerPage: keysShown, Form: keyForm{Days: "90"}, Permissions: v.Caller.Permissions}
	own, err := s.Auth.Key(v.Context(), v.Caller.OrgID, v.Caller.KeyID)
	if err != nil {
		return view, err
	}
	if view.Until = own.ExpiresAt; view.Until != nil {
		view.Form.Days = "" // it expires with that key
	}
	for _, role := range access.Roles() {
		if auth.MayGive(v.Caller, role) {
			view.Roles = append(view.Roles, role)
		}
	}
	var found []auth.Key
	if found, view.Total, err = s.Auth.Keys(v.Context(), v.Caller.OrgID, keysShown, v.offset(keysShown)); err != nil {
		return view, err
	}
	users, err := s.Auth.Users(v.Context(), v.Caller.OrgID)
	if err != nil {
		return view, err
	}
	view.Accounts = slices.DeleteFunc(slices.Clone(users), func(u auth.User) bool { return !u.ServiceAccount || u.RemovedAt != nil })
	policy, err := keyrules.Load(v.Context(), s.Auth.DB, v.Caller.OrgID)
	if err != nil {
		return view, err
	}
	made, err := s.Auth.MadeKeys(v.Context(), v.Caller.OrgID)
	for _, k := range found {
		// A foreign key keeps a user as long as there are keys of theirs.
		holder := users[slices.IndexFunc(users, func(u auth.User) bool { return u.ID == k.UserID })]
		row := keyView{
			Key: k, Holder: personName(holder), State: k.State(), Own: k.ID == v.Caller.KeyID, Made: len(made[k.ID]), Violates: k.Violations(policy),
		}
		// A key that has leaked may have made others, which outlive its revocation.
		row.RevokeMade = row.State != "active" && row.Made > 0
		row.Revocable = !row.Own && v.Caller.Role.Includes(holder.Role) && (row.State == "active" || row.RevokeMade)
		view.Keys = append(view.Keys, row)
	}
	return view, err
}

// handleCreateKey responds with the page itself: a redirect would have to carry the
// key.
func (s *Service) handleCreateKey(v *visit) (answer, error) {
	form := v.keyForm()
	n, problem := form.key(time.Now().UTC())
	account, isAccount := strings.CutPrefix(form.Holder, "account:")
	var raw string
	switch {
	case problem != nil:
	case isAccount:
		_, raw, problem = s.Auth.CreateServiceKey(v.Context(), v.Caller, account, n)
	case form.Holder == "":
		_, raw, problem = s.Auth.CreateKeyFor(v.Context(), v.Caller, n)
	default:
		_, raw, problem = s.Auth.CreateMachineKey(v.Context(), v.Caller, access.Role(form.Holder), n)
	}
	view, err := s.keyList(v)
	if err != nil {
		return answer{}, err
	}
	if problem != nil {
		view.Form = form
		return show("settings_keys", "Keys", view).refused(problem)
	}
	view.Made = &madeKey{form.Name, raw}
	return show("settings_keys", "Keys", view), nil
}

func (v *visit) keyForm() keyForm {
	f := keyForm{
		Name: strings.TrimSpace(v.FormValue("name")), Holder: v.FormValue("holder"),
		Days: strings.TrimSpace(v.FormValue("days")), Networks: v.FormValue("networks"),
	}
	for _, p := range v.PostForm["permission"] {
		f.Permissions = append(f.Permissions, access.Permission(p))
	}
	return f
}

// key parses the form. Without permissions the key has all of its holder.
func (f keyForm) key(now time.Time) (auth.NewKey, error) {
	allowed, err := keyrules.ParseAllowList(strings.Fields(f.Networks))
	n := auth.NewKey{Name: f.Name, Permissions: f.Permissions, AllowedIPs: allowed}
	if err != nil || f.Days == "" {
		return n, err
	}
	days, err := strconv.Atoi(f.Days)
	if err != nil || days < 1 || days > maxKeyDays {
		return n, fault.Invalid("expires_at", "Days must be a whole number from 1 to %d, or empty", maxKeyDays)
	}
	at := now.AddDate(0, 0, days)
	n.ExpiresAt = &at
	return n, nil
}

// Narrowed reports whether a permission is selected in the form.
func (f keyForm) Narrowed(p access.Permission) bool { return slices.Contains(f.Permissions, p) }

func (s *Service) handleRevokeKey(v *visit) (answer, error) {
	id := v.PathValue("id")
	if id == v.Caller.KeyID {
		return answer{}, fault.New(fault.Conflict, "You are signed in with this key; sign in with another one to revoke it")
	}
	cascade := v.FormValue("cascade") == "true"
	if err := s.Auth.RevokeKeyFor(v.Context(), v.Caller, id, cascade); err != nil {
		return answer{}, err
	}
	message := "The key was revoked. Its sessions and the logins that it approved have ended."
	if cascade {
		message = "The key and all keys created with it were revoked. Their sessions have ended."
	}
	return redirect("/settings/keys", message), nil
}
