package web

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// peopleShown is how many members, and how many invitations, a page lists.
const peopleShown = 50

// A memberList is the page of an organisation's members and invitations. Made is set
// right after an invitation was made, and never again.
type memberList struct {
	Size        // of the members
	Members     []memberRow
	Roles       []access.Role  // that the caller may assign
	Form        invitationForm // the input
	Invitations []members.Invitation
	Mails       bool // links are sent by mail
	Made        *madeInvitation
}

// A memberRow is a row of the list. Machines are listed with the people, and changed
// on pages of their own.
type memberRow struct {
	auth.Member
	Self       bool
	Changeable bool // by the caller
}

// madeInvitation is a new invitation, whose link is shown once.
type madeInvitation struct {
	members.Invitation
	Link string
}

// An invitationForm is the form of a new invitation.
type invitationForm struct {
	Email, Days string
	Role        access.Role
}

// listMembers returns the requested page of members. Invitations are for those who
// may make them. One order serves both lists: one that lacks the field keeps its
// default order.
func (s *Service) listMembers(ctx context.Context, c access.Caller, l tableRequest) (list memberList, err error) {
	list = memberList{Mails: s.Members.SendsMail(), Form: invitationForm{Role: access.DefaultRole, Days: "7"}}
	for _, role := range access.Roles() {
		if auth.MayGive(c, role) {
			list.Roles = append(list.Roles, role)
		}
	}
	found, total, err := s.Auth.Members(ctx, c.OrgID, auth.MemberPage{
		Search: l.Search(), Page: l.Rows(peopleShown),
	})
	for _, m := range found {
		list.Members = append(list.Members, memberRow{
			Member: m, Self: m.ID == c.UserID, Changeable: auth.MayGive(c, m.Role) && !m.Machine(),
		})
	}
	if list.Size = (Size{Total: total, PerPage: peopleShown}); err != nil || !c.May(access.Admin) {
		return list, err
	}
	list.Invitations, _, err = s.Members.List(ctx, c.OrgID, store.Page{Sort: l.Sort(), Limit: peopleShown})
	// Accepted ones are members now.
	list.Invitations = slices.DeleteFunc(list.Invitations,
		func(i members.Invitation) bool { return i.State() == members.Accepted })
	return list, err
}

// invite makes the invitation of a form. Without days the invitation has the default
// lifetime.
func (s *Service) invite(ctx context.Context, c access.Caller, f invitationForm) (*madeInvitation, error) {
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
	i, token, err := s.Members.Invite(ctx, c, n)
	return &madeInvitation{i, s.Members.Link(token)}, err
}

// A memberProfile is one member, and what ends with them. Belongings are keys and
// teams, whose end a person should know before removing someone.
type memberProfile struct {
	memberRow
	auth.Belongings
	Removable    bool // by the caller
	Transferable bool // the caller can make them owner instead
}

// profileOf returns the page of a member.
func (s *Service) profileOf(ctx context.Context, c access.Caller, id string) (out memberProfile, err error) {
	m, err := s.Auth.Member(ctx, c.OrgID, id)
	if err != nil {
		return out, err
	}
	may := m.RemovedAt == nil && auth.MayGive(c, m.Role)
	out.memberRow = memberRow{Member: m, Self: m.ID == c.UserID, Changeable: may && !m.Machine()}
	out.Removable = may && !out.Self
	// Only an owner can make another owner of the organisation.
	out.Transferable = out.Changeable && !out.Self && m.Role != access.Owner && c.Role == access.Owner &&
		auth.MayGive(c, access.Owner)
	out.Belongings, err = s.Auth.Belongings(ctx, c.OrgID, id)
	return out, err
}

// A welcomeView is the page on which an invited person becomes a member. Typed is
// the address that the person enters, which must be the invited one.
type welcomeView struct {
	members.Offer
	Token       string
	Name, Typed string // the input
	ShowKey     bool
	Inside      bool // the browser is signed in to the same organisation
}

// welcome looks an invitation up, for a browser that may be signed in.
func (s *Service) welcome(ctx context.Context, c access.Caller, token string) (welcomeView, error) {
	o, err := s.Members.Look(ctx, token)
	return welcomeView{Offer: o, Token: token, ShowKey: true, Inside: c.OrgID != "" && c.OrgID == o.OrgID}, err
}

// acceptInvitation accepts the invitation. A browser that is signed in to the same organisation
// cannot: its user is a member, and has probably opened the link of somebody else.
func (s *Service) acceptInvitation(ctx context.Context, w welcomeView) (members.Joined, error) {
	if w.Inside {
		return members.Joined{}, fault.New(fault.Conflict, "You are signed in as a member of this organisation; sign out first")
	}
	name := "first key"
	if !w.ShowKey {
		name = "browser, by invitation"
	}
	return s.Members.Accept(ctx, members.Acceptance{Token: w.Token, Name: w.Name, Email: w.Typed, KeyName: name})
}
