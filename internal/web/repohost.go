package web

import (
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// repohostView is the organisation's accounts, connections and deliveries. The lists
// of accounts and connections are short and not paged; deliveries are.
type repohostView struct {
	Mode          repohost.Mode
	Modes         []modeChoice
	Installations []repohost.Installation
	Connections   []connectionRow
	Entries       int // number of entries that a repository can publish to
	Deliveries    []repohost.Delivery
	Size          // of the deliveries
	Bind          bindForm
	TakesToken    bool // the code host supports tokens of accounts
}

// A modeChoice is an option of the select of write-back modes.
type modeChoice struct {
	Mode repohost.Mode
	Text string
}

var modeChoices = []modeChoice{
	{repohost.ModeOff, "Write nothing"},
	{repohost.ModeChecks, "Write statuses and check runs"},
	{repohost.ModePRs, "Write statuses and check runs, and pull requests when available"},
}

// A connectionRow is a connection with the last attempt to publish from it.
type connectionRow struct {
	repohost.Connection
	Last *publication.Attempt // nil if there was none
}

// bindForm is the input of the form of an installation.
type bindForm struct{ ID, Login, Type string }

const deliveriesShown = 20

func (s *Service) handleRepohost(v *visit) (answer, error) {
	view, err := s.codeHost(v)
	return show("repohost", "Code host", view), err
}

// codeHost reads the page. The page also needs no code host to be configured: it
// then says what is missing.
func (s *Service) codeHost(v *visit) (view repohostView, err error) {
	ctx, org := v.Context(), v.Caller.OrgID
	view = repohostView{Modes: modeChoices, Size: Size{PerPage: deliveriesShown}, TakesToken: s.Repohost.TakesToken()}
	if view.Mode, err = s.Repohost.Mode(ctx, org); err != nil {
		return view, err
	}
	if view.Installations, err = s.Repohost.Installations(ctx, org); err != nil {
		return view, err
	}
	if view.Connections, err = s.connectionRows(v); err != nil {
		return view, err
	}
	// Only the number is wanted, which any page has.
	if _, view.Entries, err = s.Registry.List(ctx, org, registry.Filter{Page: store.Page{Limit: 1}}); err != nil {
		return view, err
	}
	view.Deliveries, view.Total, err = s.Repohost.Deliveries(ctx, org, v.list.Rows(deliveriesShown))
	return view, err
}

// connectionOrders sort the connections, which are read whole.
var connectionOrders = map[string]rowOrder[connectionRow]{
	"connection": orderByText(func(c connectionRow) string { return c.RepoFullName }),
	"entry":      orderByText(func(c connectionRow) string { return c.EntryName }),
	"attempted_at": orderBy(func(c connectionRow) int64 {
		if c.Last == nil {
			return 0
		}
		return c.Last.QueuedAt.UnixMicro()
	}),
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
	sortRows(v.list, rows, connectionOrders)
	return rows, err
}

// handleSetMode sets what is written back to the code host, for all connections.
func (s *Service) handleSetMode(v *visit) (answer, error) {
	mode := repohost.Mode(v.FormValue("mode"))
	if !slices.ContainsFunc(modeChoices, func(c modeChoice) bool { return c.Mode == mode }) {
		return answer{}, fault.Invalid("mode", "The mode must be off, checks or checks_and_prs")
	}
	if err := s.Repohost.SetMode(v.Context(), v.Caller.OrgID, mode); err != nil {
		return answer{}, err
	}
	return redirect("/repohost", "The write-back mode was updated."), nil
}

// handleBindInstallation ties an account of the code host to the organisation.
// Binding one that is bound already changes it.
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
		return redirect("/repohost", "The account "+i.AccountLogin+" was connected."), nil
	}
	view, failure := s.codeHost(v)
	if failure != nil {
		return answer{}, failure
	}
	view.Bind = form
	return show("repohost", "Code host", view).refused(err)
}

// handleSyncConnection shows a failed attempt on the page where the connection can be
// changed. It waits for the outcome, which takes as long as fetching the repository.
func (s *Service) handleSyncConnection(v *visit) (answer, error) {
	c, last, err := s.Repohost.Sync(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	message := c.RepoFullName + ": " + last.Status.Shown() + "."
	if last.Message != "" {
		message += " " + short(maxFlash, last.Message)
	}
	if !last.Status.Bad() {
		return redirect("/repohost", message), nil
	}
	view, err := s.codeHost(v)
	if err != nil {
		return answer{}, err
	}
	return show("repohost", "Code host", view).refused(fault.New(fault.Conflict, "%s", message))
}

// maxFlash keeps a flash message within the size of a cookie.
const maxFlash = 600

// handleDisconnectRepo deletes the connection and its history of attempts.
func (s *Service) handleDisconnectRepo(v *visit) (answer, error) {
	if err := s.Repohost.Disconnect(v.Context(), v.Caller, v.PathValue("id")); err != nil {
		return answer{}, err
	}
	return redirect("/repohost", "The connection was removed. Published versions remain."), nil
}

// handleRedeliver enqueues a webhook delivery again, e.g. after its cause was
// mended.
func (s *Service) handleRedeliver(v *visit) (answer, error) {
	if _, err := s.Repohost.Redeliver(v.Context(), v.Caller.OrgID, v.PathValue("id")); err != nil {
		return answer{}, err
	}
	return redirect("/repohost", "The delivery will be processed again."), nil
}
