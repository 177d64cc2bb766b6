// Package auth manages organisations, their users and API keys, and
// authenticates requests by key or by the session of a browser. It owns the
// tables organisations, users, api_keys, sessions and device_codes.
package auth

import (
	"net/mail"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
)

// An Organisation is a tenant: no other organisation sees its data. It is the unit of the plan, the
// quota and the audit log.
type Organisation struct {
	ID        string
	Name      string
	Plan      access.Plan
	CreatedAt time.Time
}

func (o Organisation) target() audit.Target {
	return audit.Target{Kind: "organisation", ID: o.ID, Name: o.Name}
}

// A User is a person, a machine or a service account in one organisation. The same person in two
// organisations is two users.
type User struct {
	ID        string
	OrgID     string
	Email     string
	Name      string
	Role      access.Role
	CreatedAt time.Time
	RemovedAt *time.Time // nil for a member
	// ServiceAccount is set for those of internal/identity/auth/serviceaccounts.
	ServiceAccount bool
}

// Machine reports whether the user holds the keys of machines with a role, or of trusted publishers.
// That of owners is also the first owner of the installation, so it counts as a person. Machines
// are recognised by their reserved addresses: their rows are those of ordinary users.
func (u User) Machine() bool {
	return u.Email == publisherEmail || u.Role != access.Owner && u.Email == string(u.Role)+"@localhost"
}

// Person reports whether a request is made by a person: not with the key of a machine, nor
// with one that allows less than the person's role. Routes with People set need one, e.g. those
// that let others in.
func Person(c access.Caller) bool {
	return c.UserID != "" && !c.ServiceAccount && !c.Relay && c.EntryID == "" && !c.Narrowed() &&
		!User{Email: c.Email, Role: c.Role}.Machine()
}

func (u User) target() audit.Target { return audit.Target{Kind: "user", ID: u.ID, Name: u.Email} }

// NewUser describes a user to create.
type NewUser struct {
	OrgID string
	Email string
	Name  string // the part of Email before the @ when empty
	Role  access.Role
}

// orgName allows names that are safe in a path and on a terminal.
var orgName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}$`)

func checkPlan(plan access.Plan) error {
	if !plan.Valid() {
		return fault.Invalid("plan", "plan must be free, pro, team or enterprise")
	}
	return nil
}

// normalise validates the user, puts the address into lower case, and fills in the name. The
// address of a holder of machines' keys is no person's, except for the first owner's. Addresses are
// compared in lower case throughout, although the standard allows the part before the @ to be
// case-sensitive.
func (u *NewUser) normalise() error {
	address, err := mail.ParseAddress(u.Email)
	// ParseAddress also accepts "Ada <ada@example.org>", which isn't one address.
	if err != nil || address.Address != strings.TrimSpace(u.Email) || len(address.Address) > 254 {
		return fault.Invalid("email", "email must be one address, like ada@example.org")
	}
	u.Email = strings.ToLower(address.Address)
	if u.Name == "" {
		u.Name, _, _ = strings.Cut(u.Email, "@")
	}
	if utf8.RuneCountInString(u.Name) > maxName {
		return fault.Invalid("name", "name must have at most %d characters", maxName)
	}
	if !u.Role.Valid() {
		return fault.Invalid("role", "role must be viewer, member, admin or owner")
	}
	if IsMachineAddress(u.Email) && u.Email != string(access.Owner)+"@localhost" {
		return fault.Invalid("email", "%s holds the keys of machines, and is no person", u.Email)
	}
	return nil
}
