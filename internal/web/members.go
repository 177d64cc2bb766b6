package web

import (
	"strings"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/web/privacy"
)

// memberList shows the list of members with the outcome of a form; problem is nil if it
// succeeded. change puts the input or the result of the form into the view.
func (s *Service) memberList(v *visit, problem error, change func(*memberList)) (answer, error) {
	view, err := s.listMembers(v.Context(), v.Caller, v.list)
	if err != nil {
		return answer{}, err
	}
	change(&view)
	page := show("settings_members", "Members", view)
	if problem != nil {
		return page.refused(problem)
	}
	return page, nil
}

// handleMembers lists members and invitations.
func (s *Service) handleMembers(v *visit) (answer, error) {
	return s.memberList(v, nil, func(*memberList) {})
}

// handleInvite responds with the page itself: a redirect would have to carry the
// link. The link is shown even if a mail is sent, since mails get lost.
func (s *Service) handleInvite(v *visit) (answer, error) {
	form := invitationForm{
		Email: v.FormValue("email"), Days: strings.TrimSpace(v.FormValue("days")), Role: access.Role(v.FormValue("role")),
	}
	made, err := s.invite(v.Context(), v.Caller, form)
	return s.memberList(v, err, func(l *memberList) {
		if err != nil {
			l.Form = form
		} else {
			l.Made = made
		}
	})
}

// handleRevokeInvitation revokes an invitation.
func (s *Service) handleRevokeInvitation(v *visit) (answer, error) {
	err := s.Members.Revoke(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	return redirect("/settings/members", "The invitation was ended. Its link does not work any more."), err
}

// handleSetRole changes the role of a member. A role that the caller may not give is
// a problem of the form.
func (s *Service) handleSetRole(v *visit) (answer, error) {
	u, err := s.Auth.SetRole(v.Context(), v.Caller, v.PathValue("id"), access.Role(v.FormValue("role")))
	if err != nil {
		return s.memberList(v, err, func(*memberList) {})
	}
	return redirect("/settings/members", personName(u)+" now has the role "+string(u.Role)+"."), nil
}

// handleMember shows one member. It also shows what would end with the member,
// before they are removed.
func (s *Service) handleMember(v *visit) (answer, error) {
	view, err := s.profileOf(v.Context(), v.Caller, v.PathValue("id"))
	return show("settings_member", personName(view.User), view), err
}

// handleRemoveMember removes a member, and with "made" the keys that they created for
// others.
func (s *Service) handleRemoveMember(v *visit) (answer, error) {
	u, err := s.Auth.Remove(v.Context(), v.Caller, auth.Removal{UserID: v.PathValue("id"), Made: v.FormValue("made") == "true"})
	if err == nil {
		return redirect("/settings/members", u.Email+" was removed. Their keys and sessions have ended."), nil
	}
	page, failure := s.handleMember(v)
	if failure != nil {
		return answer{}, failure
	}
	return page.refused(err)
}

// handleTransfer makes a member owner and the caller an admin. Both changes are one
// transaction: an organisation always has an owner.
func (s *Service) handleTransfer(v *visit) (answer, error) {
	owner, _, err := s.Auth.Transfer(v.Context(), v.Caller, v.PathValue("id"))
	return redirect("/settings/members", personName(owner)+" is an owner now, and you are an admin."), err
}

// handlePrivacy shows the exports of the organisation, and its deletion.
func (s *Service) handlePrivacy(v *visit) (answer, error) {
	view, err := s.Privacy.Page(v.Context(), v.Caller)
	return show("settings_privacy", "Privacy", view), err
}

// handleChangePrivacy starts an export or deletes the organisation. The service
// requires its name as a confirmation, and a recent sign-in.
func (s *Service) handleChangePrivacy(v *visit) (answer, error) {
	if v.FormValue("action") == "export" {
		_, err := s.Privacy.Start(v.Context(), v.Caller)
		return redirect("/settings/privacy", "The archive is being made. Reload this page to see how far it is."), err
	}
	if err := s.Privacy.DeleteInBrowser(v.Context(), v.Caller, v.sessionID, v.FormValue("confirm")); err != nil {
		return answer{}, err
	}
	s.clearCookie(v, sessionCookie)
	return redirect("/login", v.Caller.OrgName+" was deleted."), nil
}

// handleMyData is the download of everything stored about the caller. Everyone may
// ask for it, whatever their role.
func (s *Service) handleMyData(v *visit) (answer, error) {
	return stream(v, s.Privacy.ServePerson), privacy.CheckOwn(v.Caller)
}

// handleLeave removes the caller from the organisation; their address confirms it.
func (s *Service) handleLeave(v *visit) (answer, error) {
	if err := s.Auth.Leave(v.Context(), v.Caller, v.FormValue("email")); err != nil {
		return answer{}, err
	}
	s.clearCookie(v, sessionCookie)
	return redirect("/login", "You have left "+v.Caller.OrgName+". Your keys and sessions have ended."), nil
}

// handleInvitation shows an invitation. It changes nothing: a link must not be able to
// sign a person in or out (login CSRF).
func (s *Service) handleInvitation(v *visit) (answer, error) {
	view, err := s.welcome(v.Context(), v.Caller, v.PathValue("token"))
	return show("invite", "Invitation", view), err
}

// handleAccept makes the person a member and signs this browser in as them. The
// token is looked up again: it may have been used or revoked since the page was
// shown.
func (s *Service) handleAccept(v *visit) (answer, error) {
	view, err := s.welcome(v.Context(), v.Caller, v.PathValue("token"))
	if err != nil {
		return answer{}, err
	}
	view.Name, view.Typed, view.ShowKey = strings.TrimSpace(v.FormValue("name")), v.FormValue("email"),
		v.FormValue("key") == "true"
	joined, err := s.acceptInvitation(v.Context(), view)
	if err != nil {
		return show("invite", "Invitation", view).refused(err)
	}
	// If no session could be started, the key on the next page is the only way in.
	if err := s.startSession(v, joined.RawKey); err == nil && !view.ShowKey {
		return redirect("/", "Welcome to "+joined.OrgName+"."), nil
	}
	return show("invite_done", "Welcome", joined), nil
}
