// Package people prepares the pages of members, invitations and their acceptance, of teams
// and owners, and of keys and service accounts.
package people

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/serviceaccounts"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
	"github.com/whetstone-dev/whetstone/internal/web/listing"
)

// Shown is how many members, and how many invitations, a page lists.
const Shown = 50

// A List is the page of an organisation's members and invitations.
type List struct {
	listing.Size // of the members
	Members      []Member
	Roles        []access.Role // that the caller may assign
	Form         Form          // the input
	Invitations  []members.Invitation
	Mails        bool // links are sent by mail
	Made         *Made
}

// A Member is a row of the list.
type Member struct {
	auth.Member
	Self       bool
	Changeable bool // by the caller
}

// Made is a new invitation, whose link is shown once.
type Made struct {
	members.Invitation
	Link string
}

// A Form is the form of a new invitation.
type Form struct {
	Email, Days string
	Role        access.Role
}

// Pages reads what the pages show.
type Pages struct {
	Auth           *auth.Service
	Members        *members.Service
	TeamService    *teams.Service
	AccountService *serviceaccounts.Service
}

// List returns the requested page of members. Invitations are for those
// who may make them.
func (p Pages) List(ctx context.Context, c access.Caller, l listing.Request) (list List, err error) {
	list = List{Mails: p.Members.SendsMail(), Form: Form{Role: access.DefaultRole, Days: "7"}}
	for _, role := range access.Roles() {
		if auth.MayGive(c, role) {
			list.Roles = append(list.Roles, role)
		}
	}
	found, total, err := p.Auth.Members(ctx, c.OrgID, auth.MemberPage{
		Search: l.Search(), Sort: l.Sort(), Limit: Shown, Offset: l.Offset(Shown),
	})
	for _, m := range found {
		list.Members = append(list.Members, Member{
			Member: m, Self: m.ID == c.UserID, Changeable: auth.MayGive(c, m.Role) && !m.Machine(),
		})
	}
	if list.Size = (listing.Size{Total: total, PerPage: Shown}); err != nil || !c.May(access.Admin) {
		return list, err
	}
	list.Invitations, _, err = p.Members.List(ctx, c.OrgID, store.Page{Sort: l.Sort(), Limit: Shown})
	// Accepted ones are members now.
	list.Invitations = slices.DeleteFunc(list.Invitations, func(i members.Invitation) bool { return i.State() == members.Accepted })
	return list, err
}

// Invite makes the invitation of a form.
func (p Pages) Invite(ctx context.Context, c access.Caller, f Form) (*Made, error) {
	n := members.NewInvitation{Role: f.Role, Email: strings.TrimSpace(f.Email)}
	if f.Days != "" {
		days, err := strconv.Atoi(f.Days)
		most := int(members.MaxLifetime.Hours() / 24)
		if err != nil || days < 1 || days > most {
			return nil, fault.Invalid("expires_at", "Days must be a whole number from 1 to %d", most)
		}
		at := time.Now().AddDate(0, 0, days)
		n.ExpiresAt = &at
	}
	i, token, err := p.Members.Invite(ctx, c, n)
	return &Made{i, p.Members.Link(token)}, err
}

// A Profile is one member, and what ends with them.
type Profile struct {
	Member
	auth.Belongings
	Removable    bool // by the caller
	Transferable bool // the caller can make them owner instead
}

// Profile returns the page of a member.
func (p Pages) Profile(ctx context.Context, c access.Caller, id string) (out Profile, err error) {
	m, err := p.Auth.Member(ctx, c.OrgID, id)
	if err != nil {
		return out, err
	}
	may := m.RemovedAt == nil && auth.MayGive(c, m.Role)
	out.Member = Member{Member: m, Self: m.ID == c.UserID, Changeable: may && !m.Machine()}
	out.Removable = may && !out.Self
	out.Transferable = out.Changeable && !out.Self && m.Role != access.Owner && c.Role == access.Owner && auth.MayGive(c, access.Owner)
	out.Belongings, err = p.Auth.Belongings(ctx, c.OrgID, id)
	return out, err
}

// A Welcome is the page on which an invited person becomes a member.
type Welcome struct {
	members.Offer
	Token       string
	Name, Typed string // the input
	ShowKey     bool
	Inside      bool // the browser is signed in to the same organisation
}

// Welcome looks an invitation up, for a browser that may be signed in.
func (p Pages) Welcome(ctx context.Context, c access.Caller, token string) (Welcome, error) {
	o, err := p.Members.Look(ctx, token)
	return Welcome{Offer: o, Token: token, ShowKey: true, Inside: c.OrgID != "" && c.OrgID == o.OrgID}, err
}

// Accept accepts the invitation. A browser that is signed in to the same organisation
// cannot: its user is a member, and has probably opened the link of somebody else.
func (p Pages) Accept(ctx context.Context, w Welcome) (members.Joined, error) {
	if w.Inside {
		return members.Joined{}, fault.New(fault.Conflict, "You are signed in as a member of this organisation; sign out first")
	}
	name := "first key"
	if !w.ShowKey {
		name = "browser, by invitation"
	}
	return p.Members.Accept(ctx, members.Acceptance{Token: w.Token, Name: w.Name, Email: w.Typed, KeyName: name})
}
