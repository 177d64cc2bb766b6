package web

import (
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/repohost"
)

// repohostView is the code host as the organisation uses it.
type repohostView struct {
	Mode           repohost.Mode
	Modes          []modeChoice
	Installations  []repohost.Installation
	Connections    []connectionRow
	Entries        int // that a repository can be connected to
	Deliveries     []repohost.Delivery
	Total, PerPage int // of the deliveries
	Bind           bindForm
	TakesToken     bool // the code host knows tokens of accounts
}

// A modeChoice is a write-back mode in a person's words.
type modeChoice struct {
	Mode repohost.Mode
	Text string
}

var modeChoices = []modeChoice{
	{repohost.ModeOff, "Write nothing"},
	{repohost.ModeChecks, "Statuses and check-runs on commits"},
	{repohost.ModePRs, "Statuses and check-runs, and pull requests once there are any"},
}

type connectionRow struct {
	repohost.Connection
	Last *repohost.Attempt // nil: nothing was attempted
}

// bindForm is an installation as it was typed.
type bindForm struct{ ID, Login, Type string }

const deliveriesShown = 20

func (s *Service) handleRepohost(v *visit) (answer, error) {
	view, err := s.codeHost(v)
	return show("repohost", "Code host", view), err
}

func (s *Service) codeHost(v *visit) (view repohostView, err error) {
	ctx, org := v.Context(), v.Caller.OrgID
	view = repohostView{Modes: modeChoices, PerPage: deliveriesShown, TakesToken: s.Repohost.TakesToken()}
	if view.Mode, err = s.Repohost.Mode(ctx, org); err != nil {
		return view, err
	}
	if view.Installations, err = s.Repohost.Installations(ctx, org); err != nil {
		return view, err
	}
	if view.Connections, err = s.connectionRows(v); err != nil {
		return view, err
	}
	if _, view.Entries, err = s.Registry.List(ctx, org, registry.Filter{Limit: 1}); err != nil {
		return view, err
	}
	view.Deliveries, view.Total, err = s.Repohost.Deliveries(ctx, org, deliveriesShown, v.offset(deliveriesShown))
	return view, err
}

func (s *Service) connectionRows(v *visit) ([]connectionRow, error) {
	connections, last, err := s.Repohost.Connections(v.Context(), v.Caller.OrgID)
	rows := make([]connectionRow, len(connections))
	for i, c := range connections {
		rows[i].Connection = c
		if a, ok := last[c.ID]; ok {
			rows[i].Last = &a
		}
	}
	return rows, err
}

func (s *Service) handleSetMode(v *visit) (answer, error) {
	mode := repohost.Mode(v.FormValue("mode"))
	if !slices.ContainsFunc(modeChoices, func(c modeChoice) bool { return c.Mode == mode }) {
		return answer{}, fault.Invalid("mode", "The mode must be off, checks or checks_and_prs")
	}
	if err := s.Repohost.SetMode(v.Context(), v.Caller.OrgID, mode); err != nil {
		return answer{}, err
	}
	return redirect("/repohost", "The mode was changed."), nil
}

func (s *Service) handleBindInstallation(v *visit) (answer, error) {
	form := bindForm{
		ID: strings.TrimSpace(v.FormValue("installation_id")), Login: strings.TrimSpace(v.FormValue("account_login")),
		Type: v.FormValue("account_type"),
	}
	i := repohost.Installation{OrgID: v.Caller.OrgID, AccountLogin: form.Login, AccountType: form.Type}
	i.InstallationID, _ = strconv.ParseInt(form.ID, 10, 64)            // 0 if it is not a number, which Bind rejects
	if token := strings.TrimSpace(v.FormValue("token")); token != "" { // an empty field keeps the stored token
		i.Token = &token
	}
	_, err := s.Repohost.Bind(v.Context(), i)
	if err == nil {
		return redirect("/repohost", "The account "+i.AccountLogin+" was bound."), nil
	}
	view, failure := s.codeHost(v)
	if failure != nil {
		return answer{}, failure
	}
	view.Bind = form
	return show("repohost", "Code host", view).refused(err)
}

// handleSyncConnection tells of an attempt that failed where the connection can be
// changed.
func (s *Service) handleSyncConnection(v *visit) (answer, error) {
	c, attempt, err := s.Repohost.Sync(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	message := c.RepoFullName + ": " + attempt.Status.Shown() + "."
	if attempt.Message != "" {
		message += " " + short(maxFlash, attempt.Message)
	}
	if attempt.Status.Shown() != string(repohost.Failed) {
		return redirect("/repohost", message), nil
	}
	view, err := s.codeHost(v)
	if err != nil {
		return answer{}, err
	}
	return show("repohost", "Code host", view).refused(fault.New(fault.Conflict, "%s", message))
}

// maxFlash keeps a message within what a cookie can hold.
const maxFlash = 600

func (s *Service) handleDisconnectRepo(v *visit) (answer, error) {
	if err := s.Repohost.Disconnect(v.Context(), v.Caller.OrgID, v.PathValue("id")); err != nil {
		return answer{}, err
	}
	return redirect("/repohost", "The connection was removed. What it published stays."), nil
}

func (s *Service) handleRedeliver(v *visit) (answer, error) {
	if _, err := s.Repohost.Redeliver(v.Context(), v.Caller.OrgID, v.PathValue("id")); err != nil {
		return answer{}, err
	}
	return redirect("/repohost", "The delivery is handled once more."), nil
}
