package web

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/publishers"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/release/attestations"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// registryView is a page of the organisation's entries, or of the public ones of all
// organisations.
type registryView struct {
	Size
	Entries  []registry.Listed
	Public   bool
	Searched bool
}

const (
	// How many rows of each kind a page has at most. Entries are paged; of versions
	// and installations the newest are shown, and the page says that there are more.
	entriesShown = 25
	// versionsShown limits the versions that a page lists, newest first.
	versionsShown      = 100
	installationsShown = 200
	// maxShown limits how much of a file a page shows, in bytes.
	maxShown  = 256 << 10
	skillFile = "SKILL.md"
	maxReason = 500 // characters, of a rollback
)

// entryFilter is what the address of the list selects, and whether of all organisations.
func entryFilter(v *visit) (f registry.Filter, public bool) {
	f = registry.Filter{Search: v.list.Search(), Page: store.Page{Sort: v.list.Sort()}}
	public = v.URL.Query().Get("of") == "everybody"
	// An entry whose first version waits for its gate is only for its own
	// organisation.
	f.Pending = !public
	if public && strings.HasSuffix(f.Sort, "installed") {
		f.Sort = "" // the order would tell what others' counts are
	}
	return f, public
}

// handleRegistry lists entries. Figures of other organisations' entries are removed
// here, not in the template: a template must not be able to show them by mistake.
func (s *Service) handleRegistry(v *visit) (answer, error) {
	f, public := entryFilter(v)
	f.Limit, f.Offset = entriesShown, v.offset(entriesShown)
	view := registryView{Size: Size{PerPage: entriesShown}, Public: public, Searched: f.Search != ""}
	var err error
	if view.Public {
		view.Entries, view.Total, err = s.Registry.ListPublic(v.Context(), f)
		for i, l := range view.Entries {
			if l.OrgID != v.Caller.OrgID {
				view.Entries[i].Entry, view.Entries[i].Quality = l.ForOthers(), skills.Quality{}
			}
		}
	} else {
		view.Entries, view.Total, err = s.Registry.List(v.Context(), v.Caller.OrgID, f)
	}
	return show("registry", "Registry", view), err
}

// entryView is the page of one entry. Fields that the viewer may not see are zero,
// and the template shows what is set.
type entryView struct {
	registry.Entry
	Own               bool   // the entry belongs to the caller's organisation
	Skill             string // id of its skill, or ""
	Readme            string
	ReadmeFile        string // URL of the whole file, if only the beginning is shown
	Releases          []shownVersion
	MoreReleases      bool             // there are older ones
	Choices           *release.Choices // what the viewer can roll back to; nil: nothing
	Needs             *needsView       // nil while the first version is a candidate
	Rollbacks         []rollbackRow
	Installations     []installations.State
	Drift             []driftCount
	MoreInstallations bool        // than are listed
	Target            string      // input of the rollback form
	Reason            string      // input of the rollback form
	RollForward       bool        // input of the rollback form
	Owners            *ownersView // nil for other organisations
	Visible           bool        // the viewer may change who sees it
}

// A shownVersion is a version with its figures. Quality is zero for versions of
// other organisations.
type shownVersion struct {
	registry.Version
	Current  bool
	Shown    string // of a version that is not published: candidate, blocked, superseded or withdrawn
	Quality  skills.Quality
	Interval *[2]float64
}

type rollbackRow struct {
	registry.Rollback
	Who string
}

// A driftCount is the number of installations by drift from the current version.
type driftCount struct {
	Status installations.SyncStatus
	Count  int
}

// handleRegistryEntry shows one entry. An entry of another organisation that is not
// public is not found, as in the API.
func (s *Service) handleRegistryEntry(v *visit) (answer, error) {
	view, err := s.entry(v)
	return show("registry_entry", view.Name, view), err
}

// entry reads the page of the entry in the path. It is also read for a form that was
// refused, whose input is then put over it.
func (s *Service) entry(v *visit) (view entryView, err error) {
	if view.Entry, err = s.Registry.Entry(v.Context(), v.Caller.OrgID, v.PathValue("id")); err != nil {
		return view, err
	}
	view.Own = view.OrgID == v.Caller.OrgID
	if !view.Own { // a public entry: its metrics are its owner's
		view.Entry = view.ForOthers()
	}
	if view.SkillID != nil {
		view.Skill = *view.SkillID
	}
	if view.Releases, view.MoreReleases, err = s.releases(v.Context(), view.Entry, view.Own); err != nil {
		return view, err
	}
	if err := s.readme(v.Context(), &view); err != nil {
		return view, err
	}
	if view.Rollbacks, err = s.rollbacks(v, view.Entry); err != nil {
		return view, err
	}
	if view.CurrentVersionID != "" {
		required, err := s.Requirements.View(v.Context(), v.Caller.OrgID, view.ID, "")
		if err != nil {
			return view, err
		}
		shown := newNeedsView(required)
		view.Needs = &shown
	}
	if view.Own {
		owners, err := s.ownersOf(v.Context(), v.Caller, view.ID)
		if err != nil {
			return view, err
		}
		view.Owners = &owners
		// The same condition as in registry.SetVisibility: a form that would be
		// refused is not shown.
		view.Visible = v.Caller.May(access.RegistryPush) && (v.Caller.May(access.Admin) || owners.Mine)
	}
	if view.Own && (v.Caller.May(access.RegistryRollback) || view.Owners.Mine) && v.Caller.Plan.Includes(access.Pro) {
		// The default is the newest version that may become current again.
		choices, err := s.Release.Choices(v.Context(), view.OrgID, view.ID)
		if err != nil {
			return view, err
		}
		view.Choices, view.Target = &choices, choices.Default
		// A link may choose a version, and say why.
		if q := v.URL.Query(); slices.ContainsFunc(choices.Targets,
			func(c release.Choice) bool { return c.Version.Version == q.Get("rollback") }) {
			view.Target, view.Reason = q.Get("rollback"), short(maxReason, q.Get("reason"))
		}
	}
	if v.Caller.Plan.Includes(access.Team) {
		view.Installations, err = s.Installations.OfEntry(v.Context(), v.Caller.OrgID, view.ID)
		view.Drift = drift(view.Installations)
		view.MoreInstallations = len(view.Installations) > installationsShown
		view.Installations = view.Installations[:min(len(view.Installations), installationsShown)]
	}
	return view, err
}

// releases reads the newest versions with their figures, and reports whether there are
// more. One more than shown is read, to learn that.
func (s *Service) releases(ctx context.Context, e registry.Entry, own bool) (all []shownVersion, more bool, err error) {
	versions, quality, err := s.Registry.Versions(ctx, e.OrgID, e.ID, versionsShown+1)
	if err != nil {
		return nil, false, err
	}
	held, err := s.heldBack(ctx, e, own)
	for _, version := range versions[:min(len(versions), versionsShown)] {
		r := shownVersion{Version: version, Current: version.ID == e.CurrentVersionID}
		if own {
			r.Quality = quality[version.ID]
		}
		if version.State != registry.Published {
			r.Shown = string(version.State)
		}
		if state := held[version.Version]; state != "" && version.State == registry.Candidate {
			r.Shown = state
		}
		if rate := r.Quality.PassRate; rate != nil {
			low, high := stats.Wilson(*rate, int(r.Quality.GradedSessions))
			r.Interval = &[2]float64{low, high}
		}
		all = append(all, r)
	}
	return all, len(versions) > versionsShown, err
}

// heldBack says what the last gates of an entry decided about its candidates: blocked or
// superseded, by version.
func (s *Service) heldBack(ctx context.Context, e registry.Entry, own bool) (map[string]string, error) {
	states := map[string]string{}
	if !own {
		return states, nil
	}
	all, _, err := s.Gates.List(ctx, e.OrgID, gates.Filter{EntryID: e.ID, Page: store.Page{Limit: versionsShown}})
	for _, g := range all { // the newest first
		if _, known := states[g.Version]; known || g.Pull != nil {
			continue
		}
		switch {
		case g.Shown() == string(decision.Block):
			states[g.Version] = "blocked"
		case g.Status == gates.Superseded:
			states[g.Version] = string(gates.Superseded)
		default:
			states[g.Version] = ""
		}
	}
	return states, err
}

// compared returns the figures of two versions, the older first, for above their diff. One
// that is too old to be listed has none.
func compared(all []shownVersion, from, to string) (pair []shownVersion) {
	for _, version := range []string{from, to} {
		if i := slices.IndexFunc(all, func(r shownVersion) bool { return r.Version.Version == version }); i >= 0 {
			pair = append(pair, all[i])
		}
	}
	return pair
}

// readme reads the current version's SKILL.md, or else its README.md. It is rendered
// as Markdown by the template, which escapes all HTML in it.
func (s *Service) readme(ctx context.Context, view *entryView) error {
	if view.CurrentVersionID == "" {
		return nil // the first version is a candidate
	}
	_, current, err := s.Registry.Find(ctx, view.OrgID, view.ID, "")
	if err != nil {
		return err
	}
	for _, name := range []string{skillFile, "README.md"} {
		if !hasFile(current, name) {
			continue
		}
		content, err := s.Registry.File(ctx, current, name)
		// The cut may split a character, which ToValidUTF8 mends.
		if len(content) > maxMarkdown {
			content = content[:maxMarkdown]
			view.ReadmeFile = rawFile(view.ID, current.Version, name)
		}
		view.Readme = withoutFrontmatter(content)
		return err
	}
	return nil
}

// rawFile returns the URL of a file of a version, unrendered. Each part of the path
// is escaped by itself, so that a "%" or "?" in a name is kept.
func rawFile(entryID, version, path string) string {
	all := []any{"registry", entryID, "versions", version, "files"}
	for part := range strings.SplitSeq(path, "/") {
		all = append(all, part)
	}
	return pathTo(all...)
}

// hasFile goes by the manifest, which costs no read of the archive.
func hasFile(v registry.Version, path string) bool {
	return slices.ContainsFunc(v.Manifest, func(f skillpkg.ManifestEntry) bool { return f.Path == path })
}

// withoutFrontmatter returns the body of a SKILL.md.
func withoutFrontmatter(content []byte) string {
	if parsed, err := skillpkg.ParseSkill(content); err == nil {
		return parsed.Body
	}
	return strings.ToValidUTF8(string(content), "\uFFFD")
}

// rollbacks lists rollbacks; only the entry's own organisation sees reasons and users.
func (s *Service) rollbacks(v *visit, e registry.Entry) ([]rollbackRow, error) {
	found, err := s.Registry.Rollbacks(v.Context(), e)
	if err != nil {
		return nil, err
	}
	names, err := s.userNames(v)
	rows := make([]rollbackRow, min(len(found), versionsShown))
	for i := range rows {
		rows[i] = rollbackRow{Rollback: found[i], Who: names[found[i].By]}
		if e.OrgID != v.Caller.OrgID {
			rows[i].Reason = nil
		}
	}
	return rows, err
}

// userNames returns the names of the organisation's users by id. Users that were
// removed are in it as long as something refers to them.
func (s *Service) userNames(v *visit) (map[string]string, error) {
	users, err := s.Auth.Users(v.Context(), v.Caller.OrgID)
	names := make(map[string]string, len(users))
	for _, u := range users {
		names[u.ID] = personName(u)
	}
	return names, err
}

// drift counts each status, also those with zero: the bar on the page has all of
// them.
func drift(all []installations.State) []driftCount {
	counts := []driftCount{
		{installations.UpToDate, 0},
		{installations.Behind, 0},
		{installations.Modified, 0},
		{installations.Unknown, 0},
	}
	for _, i := range all {
		at := slices.IndexFunc(counts, func(c driftCount) bool { return c.Status == i.Status() })
		counts[at].Count++
	}
	return counts
}

// handleRollBackEntry requires a reason, which the API leaves optional: a person who
// looks at the history later has nothing else.
func (s *Service) handleRollBackEntry(v *visit) (answer, error) {
	target, reason := v.FormValue("version"), strings.TrimSpace(v.FormValue("reason"))
	r := release.NewRollback{
		OrgID: v.Caller.OrgID, UserID: v.Caller.UserID, ByOwner: !v.Caller.May(access.RegistryRollback),
		Target: target, Reason: &reason, RollForward: v.FormValue("roll_forward") != "",
	}
	err := error(fault.Invalid("reason", "Enter a reason; it is shown in the history."))
	var result release.Result
	if reason != "" {
		result, err = s.Release.Rollback(v.Context(), v.PathValue("id"), r)
	}
	if err == nil {
		page := pathTo("registry", result.Entry.ID)
		return redirect(page, result.String()).undoneBy(page + "/rollback/undo"), nil
	}
	return s.refuseEntry(v, err)
}

// handleUndoRollback makes the version current again that the last rollback took
// back.
func (s *Service) handleUndoRollback(v *visit) (answer, error) {
	result, err := s.Release.Undo(v.Context(), v.Caller, v.PathValue("id"), strings.TrimSpace(v.FormValue("reason")))
	if err != nil {
		return s.refuseEntry(v, err)
	}
	return redirect(pathTo("registry", result.Entry.ID), "Version "+result.Version.Version+" is current again."), nil
}

// handleSetVisibility changes who sees the entry. The registry checks the
// permission.
func (s *Service) handleSetVisibility(v *visit) (answer, error) {
	e, err := s.Registry.SetVisibility(v.Context(), v.Caller, v.PathValue("id"), registry.Visibility(v.FormValue("visibility")))
	if err != nil {
		return s.refuseEntry(v, err)
	}
	who := map[registry.Visibility]string{
		registry.Public: "everyone", registry.Org: "this organisation", registry.Unlisted: "everyone who knows its name",
	}
	return redirect(pathTo("registry", e.ID), e.Name+" is visible to "+who[e.Visibility]+"."), nil
}

// handleDeleteEntry asks for the name as a confirmation, since it cannot be undone.
func (s *Service) handleDeleteEntry(v *visit) (answer, error) {
	e, err := s.Registry.Own(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if v.FormValue("confirm") != e.Name {
		return s.refuseEntry(v, fault.Invalid("confirm", "Type the name of the entry, %s, to delete it.", e.Name))
	}
	if err := s.Registry.Delete(v.Context(), v.Caller.OrgID, e.ID); err != nil {
		return answer{}, err
	}
	return redirect("/registry", "The entry "+e.Name+" was deleted with all its versions."), nil
}

// refuseEntry shows the entry again with the problems of a form on it.
func (s *Service) refuseEntry(v *visit, problem error) (answer, error) {
	view, err := s.entry(v)
	if err != nil {
		return answer{}, err
	}
	if view.Owners != nil && v.FormValue("owners") != "" {
		view.Owners.Named = v.FormValue("owners")
	}
	view.Target, view.Reason, view.RollForward = v.FormValue("version"), v.FormValue("reason"), v.FormValue("roll_forward") != ""
	return show("registry_entry", view.Name, view).refused(problem)
}

// versionView shows the files of a version, or the diff from another. Either Diff or
// File is set, by whether the address has a version to compare with.
type versionView struct {
	Entry   registry.Entry
	Version registry.Version
	Run     *publishers.Run // that published it; nil if it was pushed with an ordinary key
	Others  []string        // versions to compare with
	Before  string          // the one that was pushed before, if any
	From    string          // the version to compare with; "" when a file is shown
	Diff    diff
	Figures []shownVersion // of the version, after those of the one to compare with
	Path    string         // of the shown file
	File    shownFile
	Signed  []attestations.Shown
}

// A shownFile is an untrusted file for display. Rendered is set instead of Text for
// Markdown that is short enough.
type shownFile struct {
	Text     string
	Rendered string // its Markdown, or ""
	Size     int
	Binary   bool
	Cut      bool   // only the beginning is shown
	URL      string // of the whole file
}

// handleRegistryVersion shows a file of a version, or a diff. A withdrawn version
// can only be read by its own organisation, see Readable.
func (s *Service) handleRegistryVersion(v *visit) (answer, error) {
	var view versionView
	var err error
	view.Entry, view.Version, err = s.Registry.Version(v.Context(), v.Caller.OrgID, v.PathValue("id"),
		v.PathValue("version"))
	if err != nil {
		return answer{}, err
	}
	if err := view.Version.Readable(view.Entry.Name, own(v, view.Entry)); err != nil {
		return answer{}, err
	}
	// For the menu of versions to compare with.
	versions, _, err := s.releases(v.Context(), view.Entry, own(v, view.Entry))
	if err != nil {
		return answer{}, err
	}
	for i, other := range versions { // the newest first
		if other.ID != view.Version.ID {
			view.Others = append(view.Others, other.Version.Version)
		} else if i+1 < len(versions) {
			view.Before = versions[i+1].Version.Version
		}
	}
	view.Figures = compared(versions, v.URL.Query().Get("from"), view.Version.Version)
	if view.Signed, err = s.Attestations.Show(v.Context(), view.Version, view.Entry.OrgID == v.Caller.OrgID); err != nil {
		return answer{}, err
	}
	// Most versions were not published by a CI run: not found is the usual case.
	if p, err := s.Publishers.Of(v.Context(), v.Caller.OrgID, view.Entry.ID, view.Version.Version); err == nil {
		view.Run = &p.Run
	} else if !fault.Is(err, fault.NotFound) {
		return answer{}, err
	}
	title := view.Entry.Name + " " + view.Version.Version
	if view.From = v.URL.Query().Get("from"); view.From != "" {
		if !slices.Contains(view.Others, view.From) {
			view.Others = append(view.Others, view.From) // an older one
		}
		_, from, err := s.Registry.Version(v.Context(), v.Caller.OrgID, view.Entry.ID, view.From)
		if err == nil {
			err = from.Readable(view.Entry.Name, own(v, view.Entry))
		}
		if err != nil {
			return answer{}, err
		}
		text, err := s.Registry.Diff(v.Context(), view.Version, view.From)
		query := url.Values{"from": {view.From}}
		if view.Version.State == registry.Withdrawn || from.State == registry.Withdrawn {
			query.Set("withdrawn", "true")
		}
		view.Diff = newDiff(string(text))
		view.Diff.URL = pathTo("registry", view.Entry.ID, "versions", view.Version.Version, "diff") + "?" + query.Encode()
		return show("registry_version", title, view), err
	}
	err = s.openFile(v, &view)
	return show("registry_version", title, view), err
}

// own reports whether an entry is of the viewer's organisation, which may read what it has
// withdrawn.
func own(v *visit, e registry.Entry) bool { return e.OrgID == v.Caller.OrgID }

// asksWithdrawn reports whether an address asks for a version although it is withdrawn.
func asksWithdrawn(v *visit) bool { return v.URL.Query().Get("withdrawn") == "true" }

// handleDownloadVersion is the API's download for a browser, which has a session
// instead of a key. The two following are alike.
func (s *Service) handleDownloadVersion(v *visit) (answer, error) {
	at := registry.VersionPath{EntryPath: registry.EntryPath{ID: v.PathValue("id")}, Version: v.PathValue("version")}
	archive, err := s.Registry.Download(v.Context(), v.Caller.OrgID, at, asksWithdrawn(v))
	return stream(v, archive), err
}

func (s *Service) handleVersionFile(v *visit) (answer, error) {
	at := registry.VersionPath{EntryPath: registry.EntryPath{ID: v.PathValue("id")}, Version: v.PathValue("version")}
	file, err := s.Registry.StreamFile(v.Context(), v.Caller.OrgID, at, v.PathValue("path"),
		v.Header.Get("If-None-Match"), asksWithdrawn(v))
	return stream(v, file), err
}

func (s *Service) handleVersionDiff(v *visit) (answer, error) {
	at := registry.VersionPath{EntryPath: registry.EntryPath{ID: v.PathValue("id")}, Version: v.PathValue("version")}
	text, err := s.Registry.StreamDiff(v.Context(), v.Caller.OrgID, at, v.URL.Query().Get("from"), asksWithdrawn(v))
	return stream(v, text), err
}

// openFile shows the requested file, or else the SKILL.md, or else the first.
func (s *Service) openFile(v *visit, view *versionView) error {
	view.Path = v.URL.Query().Get("file")
	if view.Path == "" && hasFile(view.Version, skillFile) {
		view.Path = skillFile
	}
	if view.Path == "" && len(view.Version.Manifest) > 0 {
		view.Path = view.Version.Manifest[0].Path
	}
	if view.Path == "" {
		return nil
	}
	content, err := s.Registry.File(v.Context(), view.Version, view.Path)
	view.File = newShownFile(view.Path, content)
	view.File.URL = rawFile(view.Entry.ID, view.Version.Version, view.Path)
	if view.Version.State == registry.Withdrawn {
		view.File.URL += "?withdrawn=true"
	}
	return err
}

func newShownFile(path string, content []byte) shownFile {
	// A NUL is valid UTF-8, but no text has one.
	f := shownFile{Size: len(content), Cut: len(content) > maxShown}
	if f.Binary = !utf8.Valid(content) || slices.Contains(content, 0); f.Binary {
		return f
	}
	f.Text = strings.ToValidUTF8(string(content[:min(len(content), maxShown)]), "")
	if strings.HasSuffix(strings.ToLower(path), ".md") && len(content) <= maxMarkdown {
		f.Rendered = withoutFrontmatter(content)
	}
	return f
}

// FileURL returns the URL of the page that shows a file of the version.
func (w versionView) FileURL(path string) string {
	return pathTo("registry", w.Entry.ID, "versions", w.Version.Version) + "?" + url.Values{"file": {path}}.Encode()
}
