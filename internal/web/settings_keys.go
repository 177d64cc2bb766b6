package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/keyrules"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

const (
	keysPath = "/settings/keys"
	// Ten years; a key that should last longer has no expiry at all.
	maxKeyDays = 3650
)

// A keyList is the page of the organisation's keys, with the form of a new one and the
// policy.
type keyList struct {
	Size
	Keys        []keyRow
	Form        keyForm
	Roles       []access.Role // that the caller may give to machines
	Accounts    []auth.User   // service accounts
	Permissions []access.Permission
	Made        *madeKey   // just created
	Until       *time.Time // when the caller's key expires, and keys that it creates
	Policy      keyPolicyForm
	Violating   int // active keys that do not follow the policy
}

// A keyRow is a row of a list. What the caller may do is decided here, so that the
// template only shows it.
type keyRow struct {
	auth.Key
	Holder     string
	State      string // active, expired or revoked
	Own        bool   // the caller's session uses it
	Revocable  bool   // by the caller
	Changeable bool   // by the caller
	Made       int    // active keys that were created with it, directly or indirectly
	RevokeMade bool   // only those are left to revoke
	Violates   []string
}

// A madeKey is a new key, which is shown once. The raw key is nowhere else: only its
// hash is stored.
type madeKey struct{ Name, Raw string }

// A keyForm is the input of the form of a new key.
type keyForm struct {
	Name string `form:"name"`
	// Holder is "" for the caller, "account:" and the id of a service account, or the role of a
	// machine user.
	Holder      string              `form:"holder,raw"`
	Preset      string              `form:"preset"` // of keyPresets; "" and "custom" for Permissions
	Permissions []access.Permission `form:"permission"`
	Days        string              `form:"days"`         // "" if it does not expire
	Networks    string              `form:"networks,raw"` // from which it works, separated by white space
}

// A keyPolicyForm is the input of the form of the key policy.
type keyPolicyForm struct {
	MaxDays  string // "" if keys need not expire
	Networks bool   // new keys list them
}

// keysPage returns the requested page of keys. A new key is shown by the page
// itself: a redirect would have to carry it.
func (s *Service) keysPage(ctx context.Context, c access.Caller, r *http.Request, l tableRequest) (out formResult, err error) {
	out.Title = "Keys"
	var form keyForm
	var made *madeKey
	if r.Method == http.MethodPost {
		form = decodeForm[keyForm](r)
		made, out.Problem = s.createKey(ctx, c, form)
	}
	view, err := s.keyList(ctx, c, l)
	if view.Made = made; out.Problem != nil {
		view.Form = form
	}
	out.View = view
	return out, err
}

// keyList reads the page. Permissions and roles are only those that the caller has:
// nobody can give more.
func (s *Service) keyList(ctx context.Context, c access.Caller, l tableRequest) (view keyList, err error) {
	view = keyList{Permissions: c.Permissions}
	for _, role := range access.Roles() {
		if auth.MayGive(c, role) {
			view.Roles = append(view.Roles, role)
		}
	}
	policy, err := keyrules.Load(ctx, s.Auth.DB, c.OrgID)
	if err != nil {
		return view, err
	}
	f := keyPolicyForm{Networks: policy.RequireAllowedIPs}
	if policy.MaxDays != nil {
		f.MaxDays = strconv.Itoa(*policy.MaxDays)
	}
	view.Policy = f
	if view.Violating, err = keyrules.CountViolating(ctx, s.Auth.DB, c.OrgID, policy); err != nil {
		return view, err
	}
	if view.Form.Days, view.Until, err = s.expiry(ctx, c, policy); err != nil {
		return view, err
	}
	found, total, err := s.Auth.Keys(ctx, c.OrgID, l.Rows(peopleShown))
	if err != nil {
		return view, err
	}
	users, err := s.Auth.Users(ctx, c.OrgID)
	if err != nil {
		return view, err
	}
	view.Size = Size{Total: total, PerPage: peopleShown}
	view.Accounts = slices.DeleteFunc(slices.Clone(users),
		func(u auth.User) bool { return !u.ServiceAccount || u.RemovedAt != nil })
	view.Keys, err = s.keys(ctx, c, found, users, policy)
	return view, err
}

// keys are the rows of a list. A foreign key keeps a user as long as there are keys of
// theirs.
func (s *Service) keys(ctx context.Context, c access.Caller, found []auth.Key, users []auth.User,
	policy keyrules.Policy,
) (all []keyRow, err error) {
	made, err := s.Auth.MadeKeys(ctx, c.OrgID)
	for _, k := range found {
		holder := users[slices.IndexFunc(users, func(u auth.User) bool { return u.ID == k.UserID })]
		row := keyRow{
			Key: k, Holder: cmp.Or(holder.Name, holder.Email), State: k.State(), Own: k.ID == c.KeyID, Made: len(made[k.ID]),
			Violates: k.Violations(policy),
		}
		if holder.RemovedAt != nil {
			row.Holder += " (removed)"
		}
		// An admin must not take a key from an owner.
		may := c.Role.Includes(holder.Role)
		// A key that has leaked may have made others, which outlive its revocation.
		row.RevokeMade = row.State != "active" && row.Made > 0
		row.Changeable = may && row.State == "active"
		row.Revocable = !row.Own && may && (row.State == "active" || row.RevokeMade)
		all = append(all, row)
	}
	return all, err
}

// expiry returns the days that a form suggests, and when the key that the caller uses
// expires: a new one lasts no longer.
func (s *Service) expiry(ctx context.Context, c access.Caller, policy keyrules.Policy) (days string,
	until *time.Time, err error,
) {
	own, err := s.Auth.Key(ctx, c.OrgID, c.KeyID)
	if err != nil || own.ExpiresAt != nil {
		return "", own.ExpiresAt, err
	}
	suggestion := 90
	if policy.MaxDays != nil {
		suggestion = min(suggestion, *policy.MaxDays)
	}
	return strconv.Itoa(suggestion), nil, nil
}

// createKey makes a key for the caller, a service account, or a machine user of a
// role.
func (s *Service) createKey(ctx context.Context, c access.Caller, f keyForm) (*madeKey, error) {
	n, err := f.key()
	if err != nil {
		return nil, err
	}
	var raw string
	switch account, ok := strings.CutPrefix(f.Holder, "account:"); {
	case ok:
		_, raw, err = s.Auth.CreateServiceKey(ctx, c, account, n)
	case f.Holder == "":
		_, raw, err = s.Auth.CreateKeyFor(ctx, c, n)
	default:
		_, raw, err = s.Auth.CreateMachineKey(ctx, c, access.Role(f.Holder), n)
	}
	if err != nil {
		return nil, err
	}
	return &madeKey{f.Name, raw}, nil
}

// A keyPreset is what keys are usually for.
type keyPreset struct {
	Value, Label string
	permissions  []access.Permission // none for all of the holder
}

// keyPresets begin with the default, which can do the least harm.
var keyPresets = []keyPreset{
	{"read", "Read: dashboards and reports", []access.Permission{access.Read}},
	{"telemetry", "Agents: report sessions, nothing else", []access.Permission{access.TelemetryWrite}},
	{"ci", "CI: read, run tests and publish versions", []access.Permission{access.Read, access.Write, access.RegistryPush}},
	{"all", "Everything its holder may do", nil},
	{"custom", "Choose permissions", nil},
}

// Presets are the choices of the form.
func (f keyForm) Presets() []keyPreset { return keyPresets }

// Chosen reports whether a preset is selected in the form.
func (f keyForm) Chosen(preset string) bool { return cmp.Or(f.Preset, keyPresets[0].Value) == preset }

// key parses the form. Nothing chosen is refused: it would be a key that may do everything.
func (f keyForm) key() (n auth.NewKey, err error) {
	n = auth.NewKey{Name: f.Name, Permissions: f.Permissions}
	chosen := len(f.Permissions) > 0 || f.Preset == "all"
	for _, p := range keyPresets {
		if p.Value == f.Preset && len(p.permissions) > 0 {
			n.Permissions, chosen = p.permissions, true
		}
	}
	if n.AllowedIPs, err = keyrules.ParseAllowList(strings.Fields(f.Networks)); err != nil {
		return n, err
	}
	if n.ExpiresAt, err = expiresIn(f.Days); err == nil && !chosen {
		err = fault.Invalid("permissions", "Choose what the key may do")
	}
	return n, err
}

// expiresIn parses the days that a key or token lasts; nil if it does not expire.
func expiresIn(days string) (never *time.Time, err error) {
	if days == "" {
		return never, nil
	}
	n, err := strconv.Atoi(days)
	if err != nil || n < 1 || n > maxKeyDays {
		return nil, fault.Invalid("expires_at", "Days must be a whole number from 1 to %d, or empty", maxKeyDays)
	}
	at := time.Now().UTC().AddDate(0, 0, n)
	return &at, nil
}

// Narrowed reports whether a permission is selected in the form.
func (f keyForm) Narrowed(p access.Permission) bool { return slices.Contains(f.Permissions, p) }

// revokeKey revokes a key, and returns to the page of its service account if the form was
// there. With cascade all keys that it has made go as well.
func (s *Service) revokeKey(ctx context.Context, c access.Caller, r *http.Request) (formResult, error) {
	id, cascade := r.PathValue("id"), r.FormValue("cascade") == "true"
	// Otherwise the answer to this request could not be shown any more.
	if id == c.KeyID {
		return formResult{}, fault.New(fault.Conflict, "You are signed in with this key; sign in with another one to revoke it")
	}
	out := formResult{To: keysPath, Message: "The key was revoked. Its sessions and the logins that it approved have ended."}
	if cascade {
		out.Message = "The key and all keys created with it were revoked. Their sessions have ended."
	}
	if account := r.FormValue("account"); account != "" {
		out.To = accountPath(account)
	}
	return out, s.Auth.RevokeKeyFor(ctx, c, id, cascade)
}

// setKeyPolicy sets the policy of a form.
func (s *Service) setKeyPolicy(ctx context.Context, c access.Caller, r *http.Request) (out formResult, err error) {
	form := keyPolicyForm{strings.TrimSpace(r.FormValue("max_days")), r.FormValue("networks") == "true"}
	policy := keyrules.Policy{RequireAllowedIPs: form.Networks}
	if form.MaxDays != "" {
		days, err := strconv.Atoi(form.MaxDays)
		if err != nil {
			days = 0 // is refused with the range
		}
		policy.MaxDays = &days
	}
	if _, out.Problem = keyrules.Save(ctx, s.Auth.DB, c, policy); out.Problem == nil {
		return formResult{To: keysPath, Message: "The policy of new keys was changed. Existing keys go on working."}, nil
	}
	view, err := s.keyList(ctx, c, tableRequest{})
	view.Policy = form
	out.Title, out.View = "Keys", view
	return out, err
}
