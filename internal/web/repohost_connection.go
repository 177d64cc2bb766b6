package web

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
	"github.com/whetstone-dev/whetstone/internal/release/checks"
)

// connectionView is the form of a new or an existing connection. The second step has
// the fields of the form; of the first there are only Repositories.
type connectionView struct {
	Form          repohost.Connection  // ID is "" for a new one
	Last          *publication.Attempt // nil if there was none
	Pulls         []checks.Pull        // newest first
	Installations []repohost.Installation
	Entries       []registry.Listed           // to publish to
	EntryTotal    int                         // of which Entries may be the first only
	Repositories  []repohost.ListedRepository // to choose from
	Unreachable   string                      // why Repositories is empty, or ""
	MayConfirm    bool                        // the skill may have another name than the entry
	MaySetOwners  bool                        // of the entry; of a new connection's, admins
}

// handleNewConnection has two steps: choose a repository, then say what to publish
// from it.
func (s *Service) handleNewConnection(v *visit) (answer, error) {
	q := v.URL.Query()
	form := repohost.DefaultConnection()
	form.RepoFullName = q.Get("repo")
	form.DefaultBranch = cmp.Or(q.Get("branch"), form.DefaultBranch)
	form.InstallationID, _ = strconv.ParseInt(q.Get("installation"), 10, 64) // 0 if invalid, which does not exist
	view, err := s.connectionForm(v, form)
	if err == nil && form.RepoFullName == "" {
		err = s.offerRepositories(v, &view)
	}
	return show("repohost_connection", "Connect a repository", view), err
}

// connectionForm reads what the form of a new connection offers. A new connection is
// for the first account, unless another one was chosen.
func (s *Service) connectionForm(v *visit, form repohost.Connection) (view connectionView, err error) {
	view.Form, view.MaySetOwners = form, v.Caller.May(access.Admin)
	if view.Installations, err = s.Repohost.Installations(v.Context(), v.Caller.OrgID); err != nil {
		return view, err
	}
	if form.InstallationID == 0 && len(view.Installations) > 0 {
		view.Form.InstallationID = view.Installations[0].InstallationID
	}
	all := registry.Filter{Page: store.Page{Limit: 1_000}}
	view.Entries, view.EntryTotal, err = s.Registry.List(v.Context(), v.Caller.OrgID, all)
	return view, err
}

// offerRepositories lists the repositories of the account, newest push first. If the
// code host does not respond, the name can still be typed.
func (s *Service) offerRepositories(v *visit, view *connectionView) error {
	if len(view.Installations) == 0 {
		return nil
	}
	found, err := s.Repohost.Repositories(v.Context(), v.Caller.OrgID, view.Form.InstallationID)
	if fault.Is(err, fault.BadGateway) || fault.Is(err, fault.Conflict) {
		view.Unreachable = err.Error()
		return nil
	}
	// Repositories that were never pushed to stay where the code host lists them.
	slices.SortStableFunc(found, func(a, b repohost.ListedRepository) int {
		switch {
		case a.PushedAt == nil || b.PushedAt == nil:
			return 0
		default:
			return b.PushedAt.Compare(*a.PushedAt)
		}
	})
	view.Repositories = found
	return err
}

// Choose returns the URL of the form for a repository.
func (c connectionView) Choose(r repohost.ListedRepository) string {
	return "/repohost/connections/new?" + url.Values{
		"installation": {strconv.FormatInt(c.Form.InstallationID, 10)}, "repo": {r.FullName}, "branch": {r.DefaultBranch},
	}.Encode()
}

// handleConnectRepo connects a repository to an entry. A conflict may be about the
// skill's name, and is then asked to be confirmed.
func (s *Service) handleConnectRepo(v *visit) (answer, error) {
	installation, _ := strconv.ParseInt(v.FormValue("installation_id"), 10, 64) // 0 if invalid, which does not exist
	form := repohost.DefaultConnection()
	form.EntryID, form.InstallationID = v.FormValue("entry_id"), installation
	form.RepoFullName = strings.TrimSpace(v.FormValue("repo_full_name"))
	readConnection(v, &form)
	made, err := s.Repohost.ConnectChosen(v.Context(), v.Caller, form, v.FormValue("confirm_name") != "")
	if err == nil {
		return redirect("/repohost", made.RepoFullName+" is connected to "+made.EntryName+"."), nil
	}
	view, failure := s.connectionForm(v, form)
	if failure != nil {
		return answer{}, failure
	}
	view.MayConfirm = fault.Is(err, fault.Conflict)
	return show("repohost_connection", "Connect a repository", view).refused(err)
}

// readConnection reads the editable fields of a connection. A field that is missing
// from the form stays unchanged; checkboxes are an exception, since browsers do not
// send unchecked ones.
func readConnection(v *visit, c *repohost.Connection) {
	for name, field := range map[string]*string{
		"default_branch": &c.DefaultBranch,
		"skill_path":     &c.SkillPath, "tag_pattern": &c.TagPattern,
	} {
		if v.PostForm.Has(name) {
			*field = strings.TrimSpace(v.PostForm.Get(name))
		}
	}
	if v.PostForm.Has("pull_requests") {
		c.PullRequests = repohost.PullRequests(v.PostForm.Get("pull_requests"))
	}
	c.AutoPublish, c.WriteBackEnabled = v.FormValue("auto_publish") != "", v.FormValue("write_back") != ""
	// The box is only shown to those who may change it, so its absence means nothing
	// else.
	if v.PostForm.Has("owners_shown") {
		c.Codeowners = v.FormValue("codeowners") != ""
	}
	c.PublishUnchanged, c.OpenIssues = v.FormValue("publish_unchanged") != "", v.FormValue("open_issues") != ""
}

// handleConnection shows a connection with its form.
func (s *Service) handleConnection(v *visit) (answer, error) {
	row, err := s.connectionRow(v)
	if err != nil {
		return answer{}, err
	}
	view, err := s.changeForm(v, row, row.Connection)
	if err != nil {
		return answer{}, err
	}
	view.Pulls, err = s.Checks.Pulls(v.Context(), v.Caller.OrgID, row.ID)
	return show("repohost_connection", row.RepoFullName, view), err
}

// changeForm is the form of an existing connection. A person who owns the entry may
// set its owners, too, without being an admin.
func (s *Service) changeForm(v *visit, row connectionRow, form repohost.Connection) (view connectionView, err error) {
	view = connectionView{Form: form, Last: row.Last, MaySetOwners: v.Caller.May(access.Admin)}
	if !view.MaySetOwners {
		view.MaySetOwners, err = s.Teams.MayAsOwner(v.Context(), v.Caller, form.EntryID)
	}
	return view, err
}

// connectionRow finds the connection of the path. An organisation has few of them,
// so they are read whole.
func (s *Service) connectionRow(v *visit) (connectionRow, error) {
	rows, err := s.connectionRows(v)
	if err != nil {
		return connectionRow{}, err
	}
	i := slices.IndexFunc(rows, func(r connectionRow) bool { return r.ID == v.PathValue("id") })
	if i < 0 {
		return connectionRow{}, fault.New(fault.NotFound, "Connection not found")
	}
	return rows[i], nil
}

// handleChangeConnection saves the form of a connection. The repository and the
// entry never change: that would be another connection.
func (s *Service) handleChangeConnection(v *visit) (answer, error) {
	row, err := s.connectionRow(v)
	if err != nil {
		return answer{}, err
	}
	form := row.Connection
	readConnection(v, &form)
	change := repohost.Change{
		DefaultBranch: &form.DefaultBranch, SkillPath: &form.SkillPath, TagPattern: &form.TagPattern,
		AutoPublish: &form.AutoPublish, WriteBackEnabled: &form.WriteBackEnabled,
		PublishUnchanged: &form.PublishUnchanged, OpenIssues: &form.OpenIssues,
		PullRequests: &form.PullRequests,
	}
	if form.Codeowners != row.Codeowners { // else another branch would keep a box that was ticked for the one before
		change.Codeowners = &form.Codeowners
	}
	c, err := s.Repohost.Update(v.Context(), v.Caller, form.ID, change)
	if err != nil {
		view, failure := s.changeForm(v, row, form)
		if failure != nil {
			return answer{}, failure
		}
		return show("repohost_connection", form.RepoFullName, view).refused(err)
	}
	return redirect("/repohost", "The connection of "+c.RepoFullName+" was updated."), nil
}
