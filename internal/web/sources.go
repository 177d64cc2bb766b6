package web

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// sourcesView lists the sources, with the form of a new one.
type sourcesView struct {
	Size
	Rows  []sourceRow
	Label string // input of the form
}

// A sourceRow is a source in the list.
type sourceRow struct {
	sources.Source
	SkillName string
	Waiting   int // pending suggestions
}

// Origin is the repository, or "upload".
func (r sourceRow) Origin() string {
	if r.Repo == nil {
		return "upload"
	}
	return r.Repo.FullName
}

const sourcesPerPage = 50

// sourceOrders are the orders of the list, which other pages read whole, too.
var sourceOrders = map[string]rowOrder[sourceRow]{
	"label":      orderByText(func(r sourceRow) string { return r.Label }),
	"origin":     orderByText(sourceRow.Origin),
	"skill":      orderByText(func(r sourceRow) string { return r.SkillName }),
	"waiting":    orderBy(func(r sourceRow) int { return r.Waiting }),
	"created_at": orderBy(func(r sourceRow) int64 { return r.CreatedAt.UnixMicro() }),
}

func (s *Service) handleSources(v *visit) (answer, error) {
	view, err := s.sourceList(v)
	return show("sources", "Sources", view), err
}

// sourceList reads the page. All sources are read: an organisation has at most some
// hundred, and searching and sorting go by names that other tables have.
func (s *Service) sourceList(v *visit) (view sourcesView, err error) {
	org := v.Caller.OrgID
	found, err := s.Sources.List(v.Context(), org, sources.Filter{})
	if err != nil {
		return view, err
	}
	waiting, err := s.Overview.Waiting(v.Context(), org)
	if err != nil {
		return view, err
	}
	counts := map[string]int{}
	for _, w := range waiting {
		counts[w.SourceID] = w.Suggestions
	}
	var linked []string
	for _, src := range found {
		if src.SkillID != nil {
			linked = append(linked, *src.SkillID)
		}
	}
	// One query for the names of all rows.
	names, err := s.Overview.SkillNames(v.Context(), org, linked)
	var rows []sourceRow
	for _, src := range found {
		row := sourceRow{Source: src, Waiting: counts[src.ID]}
		if src.SkillID != nil {
			row.SkillName = names[*src.SkillID]
		}
		if v.list.Matches(row.Label, row.SkillName, row.Origin()) {
			rows = append(rows, row)
		}
	}
	sortRows(v.list, rows, sourceOrders)
	view.Size = Size{Total: len(rows), PerPage: sourcesPerPage}
	view.Rows = cutRows(v.list, rows, sourcesPerPage)
	return view, err
}

// handleUploadSource creates a source from an upload. The files of a refused form
// are lost: browsers cannot fill them in again.
func (s *Service) handleUploadSource(v *visit) (answer, error) {
	t, err := s.takeUpload(v, "")
	if err != nil {
		view, more := s.sourceList(v)
		if more != nil {
			return answer{}, more
		}
		view.Label = v.PostFormValue("label")
		return show("sources", "Sources", view).refused(err)
	}
	return redirect(pathTo("sources", t.Source.ID), "The source was created."), nil
}

// handleUploadSnapshot adds a snapshot to a source.
func (s *Service) handleUploadSnapshot(v *visit) (answer, error) {
	id := v.PathValue("id")
	before, err := s.Sources.Detail(v.Context(), v.Caller.OrgID, id)
	if err != nil {
		return answer{}, err
	}
	t, err := s.takeUpload(v, id)
	if err != nil {
		view, more := s.sourceView(v, id)
		if more != nil {
			return answer{}, more
		}
		return show("source", view.Label, view).refused(err)
	}
	message := "The new snapshot is now current."
	// Snapshots of equal files are one snapshot.
	if before.CurrentSnapshotID != nil && *before.CurrentSnapshotID == t.Snapshot.ID {
		message = "The files are the same as in the current snapshot. Nothing changed."
	}
	return redirect(pathTo("sources", t.Source.ID), message), nil
}

// takeUpload reads the files of a form: for a new source, or for one that is
// there.
func (s *Service) takeUpload(v *visit, sourceID string) (t sources.Result, err error) {
	form, err := readUpload(v)
	if err != nil {
		return t, err
	}
	defer form.Close()
	pkg, err := s.Sources.OpenUpload(v.Context(), *form)
	if err != nil {
		return t, err
	}
	defer pkg.Close()
	if sourceID != "" {
		return s.Sources.AddSnapshot(v.Context(), v.Caller, sourceID, pkg)
	}
	// Without a label the name of the folder is one.
	n := sources.NewSource{Label: cmp.Or(strings.TrimSpace(v.PostFormValue("label")), pkg.Folder), Type: sources.Upload}
	return s.Sources.CreateFrom(v.Context(), v.Caller, n, pkg)
}

// readUpload parses a form with files, and sets the visit's PostForm to its other
// fields. The caller closes it.
func readUpload(v *visit) (*httpapi.Form, error) {
	form, err := httpapi.ReadForm(v.Request)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, fault.New(fault.TooLarge, "The files are over the limit of 10 MiB")
	}
	if fault.Is(err, fault.Malformed) {
		return nil, fault.New(fault.Malformed, "The form could not be read").Because(err)
	}
	if err != nil {
		return nil, err
	}
	// The other fields are read like those of any form, and checked like them.
	v.PostForm = form.Values
	if err := httpapi.CheckText(v.URL, v.PostForm); err != nil {
		form.Close()
		return nil, err
	}
	return form, nil
}
