package web

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/suggestions"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// sourceView is the page of one source. The lists are truncated, and the page links
// to all of each.
type sourceView struct {
	suggestions.Detail
	SkillName string
	Skills    skillChoices // that it can be linked to
	Status    string       // of the validation; "" without a snapshot
	Counts    lint.Counts
	Findings  []findingRow
	More      int // further findings
	SuiteRows []suites.Suite
	Targets   []caseTarget // that drafts can go to
	Chosen    string       // of them
}

// A findingRow is a finding with an excerpt of its file.
type findingRow struct {
	lint.Finding
	Excerpt []excerptLine
}

const (
	findingsShown = 200
	// excerptFiles limits from how many files excerpts are read.
	excerptFiles = 20
	pendingShown = 10
	reviewsShown = 20
)

func (s *Service) handleSource(v *visit) (answer, error) {
	view, err := s.sourceView(v, v.PathValue("id"))
	return show("source", view.Label, view), err
}

// sourceView reads the page of a source. A source without a snapshot, e.g. right
// after it was linked, has no findings.
func (s *Service) sourceView(v *visit, id string) (view sourceView, err error) {
	if view.Detail, err = s.Suggestions.Detail(v.Context(), v.Caller.OrgID, id); err != nil {
		return view, err
	}
	view.Pending = view.Pending[:min(len(view.Pending), pendingShown)]
	view.Reviews = view.Reviews[:min(len(view.Reviews), reviewsShown)]
	if view.Skills, err = s.skillChoices(v); err != nil {
		return view, err
	}
	if view.SkillID != nil {
		p, err := s.Skills.Get(v.Context(), v.Caller.OrgID, *view.SkillID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return view, err
		}
		view.SkillName = p.Name
	}
	if view.DraftCount > 0 {
		if view.Targets, view.Chosen, err = s.suiteTargets(v, []string{view.ID}, view.Label); err != nil {
			return view, err
		}
	}
	view.SuiteRows, _, err = s.Suites.List(v.Context(), v.Caller.OrgID,
		suites.Filter{SourceID: view.ID, Page: store.Page{Limit: suitesPerPage}})
	if err != nil || view.Current == nil {
		return view, err
	}
	s.validate(v, &view)
	return view, nil
}

// severities are in the order in which they should be fixed.
var severities = []lint.Severity{lint.Error, lint.Warning, lint.Info}

// validate shows the findings of the current snapshot with their lines.
func (s *Service) validate(v *visit, view *sourceView) {
	var found lint.Report
	// One report per skill of the source; the page shows all findings as one list.
	for _, r := range view.Reports {
		found.Findings = append(found.Findings, r.Found.Findings...)
	}
	view.Status, view.Counts = found.Status(), found.Counts()
	// Stable: within a severity the order is that of the files.
	slices.SortStableFunc(found.Findings, func(a, b lint.Finding) int {
		return cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity))
	})
	shown := found.Findings[:min(len(found.Findings), findingsShown)]
	view.More = len(found.Findings) - len(shown)
	files := map[string]bool{}
	for _, f := range shown {
		row := findingRow{Finding: f}
		// Each file is a read of the archive, unless it is cached.
		if files[f.Path] || len(files) < excerptFiles {
			files[f.Path] = true
			row.Excerpt = s.lines(v.Context(), *view.Current, f)
		}
		view.Findings = append(view.Findings, row)
	}
}

// lines returns the lines around a finding. A secret must not be shown again, and
// large and unreadable files have no excerpt.
func (s *Service) lines(ctx context.Context, snapshot sources.Snapshot, f lint.Finding) []excerptLine {
	if f.Path == "" || f.Line == 0 || strings.HasPrefix(f.Code, "sec.secret.") {
		return nil
	}
	if file, err := snapshot.File(f.Path); err != nil || file.Size > maxShown {
		return nil
	}
	// An excerpt is a convenience: without it the finding is still shown.
	text, err := s.Sources.FileOf(ctx, snapshot, f.Path)
	if err != nil {
		return nil
	}
	return excerpt(text, f.Line)
}

// An excerptLine is a line of a file. N counts from 1; Marked is the line of the
// finding.
type excerptLine struct {
	N      int
	Text   string
	Marked bool
}

const (
	around     = 2 // lines before and after the finding
	lineLength = 300
)

// excerpt returns a line of a text with its context. Without text, or beyond its
// end, e.g. in a file that has changed, there is none.
func excerpt(text []byte, line int) []excerptLine {
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return nil
	}
	all := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if line < 1 || line > len(all) {
		return nil
	}
	var found []excerptLine
	for n := max(1, line-around); n <= min(len(all), line+around); n++ {
		found = append(found, excerptLine{N: n, Text: short(lineLength, strings.TrimSuffix(all[n-1], "\r")), Marked: n == line})
	}
	return found
}

// diffView is the diff between two snapshots of a source.
type diffView struct {
	sources.Detail
	From, To sources.Snapshot
	Diff     diff
}

// handleSourceDiff shows the diff between two snapshots. A diff is computed each
// time: both archives are cached.
func (s *Service) handleSourceDiff(v *visit) (answer, error) {
	d, err := s.Sources.Detail(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	view := diffView{Detail: d}
	if view.From, view.To, err = s.compared(v, d.ID); err != nil {
		return answer{}, err
	}
	text, err := s.Sources.Diff(v.Context(), view.From, view.To)
	view.Diff = newDiff(string(text))
	view.Diff.URL = pathTo("sources", d.ID, "changes.diff") + "?" +
		url.Values{"from": {view.From.ID}, "to": {view.To.ID}}.Encode()
	return show("source_diff", "Changes of "+d.Label, view), err
}

// handleSourceChanges sends the whole diff as text.
func (s *Service) handleSourceChanges(v *visit) (answer, error) {
	from, to, err := s.compared(v, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	text, err := s.Sources.Diff(v.Context(), from, to)
	return raw(func(w http.ResponseWriter) error { return send(w, "text/plain; charset=utf-8", text) }), err
}

// compared returns the snapshots that the query names, by default the current one
// and the one before it.
func (s *Service) compared(v *visit, sourceID string) (from, to sources.Snapshot, err error) {
	org := v.Caller.OrgID
	if to, err = s.Sources.Snapshot(v.Context(), org, sourceID, v.URL.Query().Get("to")); err != nil {
		return from, to, err
	}
	if id := v.URL.Query().Get("from"); id != "" {
		from, err = s.Sources.Snapshot(v.Context(), org, sourceID, id)
	} else {
		from, err = s.Sources.Previous(v.Context(), to)
	}
	return from, to, err
}

// handleSourceFile sends a file as it is, for people who want the whole of it.
func (s *Service) handleSourceFile(v *visit) (answer, error) {
	snapshot, err := s.Sources.Snapshot(v.Context(), v.Caller.OrgID, v.PathValue("id"), v.URL.Query().Get("snapshot"))
	if err != nil {
		return answer{}, err
	}
	content, err := s.Sources.FileOf(v.Context(), snapshot, v.PathValue("path"))
	if err != nil {
		return answer{}, err
	}
	// Never as HTML: an uploaded file must not run in this origin (stored XSS).
	kind := "application/octet-stream"
	if utf8.Valid(content) && bytes.IndexByte(content, 0) < 0 {
		kind = "text/plain; charset=utf-8"
	}
	return raw(func(w http.ResponseWriter) error { return send(w, kind, content) }), nil
}

// send writes a file and forbids the browser to guess another type (MIME sniffing).
// The headers are set before anything is written, which the compiler cannot check.
func send(w http.ResponseWriter, kind string, content []byte) error {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	stored.Send(w, content)
	return nil
}

// handleSourceSARIF sends the findings in the format that code hosts and editors
// read.
func (s *Service) handleSourceSARIF(v *visit) (answer, error) {
	document, err := s.Sources.SARIF(v.Context(), v.Caller.OrgID, v.PathValue("id"), "")
	if err != nil {
		return answer{}, err
	}
	return raw(func(w http.ResponseWriter) error {
		w.Header().Set("Content-Disposition", `attachment; filename="`+path.Base(v.PathValue("id"))+`.sarif"`)
		return send(w, "application/sarif+json", document)
	}), nil
}

// handleChangeSource changes the label and the linked skill.
func (s *Service) handleChangeSource(v *visit) (answer, error) {
	id := v.PathValue("id")
	var c sources.Change
	// A field that the form lacks stays as it is; an empty skill unlinks it.
	for name, field := range map[string]**string{"label": &c.Label, "skill": &c.SkillID} {
		if v.PostForm.Has(name) {
			text := strings.TrimSpace(v.PostForm.Get(name))
			*field = &text
		}
	}
	var src sources.Source
	var err error
	if c.SkillID != nil && *c.SkillID != "" {
		var p skills.Performance
		p, err = s.chosenSkill(v, *c.SkillID)
		c.SkillID = &p.ID
	}
	if err == nil {
		src, err = s.Sources.Update(v.Context(), v.Caller, id, c)
	}
	if err != nil {
		view, more := s.sourceView(v, id)
		if more != nil {
			return answer{}, more
		}
		return show("source", view.Label, view).refused(err)
	}
	return redirect(pathTo("sources", src.ID), "The source was updated."), nil
}

// handleApplyDrafts adds the drafts of a source to a suite, and shows the way to it.
func (s *Service) handleApplyDrafts(v *visit) (answer, error) {
	view, err := s.sourceView(v, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	var out suggestions.AppliedDrafts
	to, _, err := chosenTarget(v, view.Targets)
	if err == nil {
		out, err = s.Suggestions.ApplyDrafts(v.Context(), v.Caller, view.ID, nil, to)
	}
	if err != nil {
		view.Chosen = v.FormValue("target")
		return show("source", view.Label, view).refused(err)
	}
	message := fmt.Sprintf("%d added to %s.", out.Added, out.Suite.Name)
	return redirect(pathTo("sources", view.ID), message).linking(pathTo("suites", out.Suite.ID), "Open the suite"), nil
}

// handleDeleteSource deletes the source with its snapshots; published versions stay.
func (s *Service) handleDeleteSource(v *visit) (answer, error) {
	if err := s.Sources.Delete(v.Context(), v.Caller, v.PathValue("id")); err != nil {
		return answer{}, err
	}
	return redirect("/sources", "The source was deleted."), nil
}

// handleSyncSource fetches the repository now, instead of at the next webhook.
func (s *Service) handleSyncSource(v *visit) (answer, error) {
	t, err := s.Sources.Sync(v.Context(), v.Caller, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return redirect(pathTo("sources", t.Source.ID), "The source was synchronised with the repository."), nil
}

// SuiteName returns the name of a suite of the source, or "".
func (d sourceView) SuiteName(id *string) string {
	i := slices.IndexFunc(d.SuiteRows, func(s suites.Suite) bool { return id != nil && s.ID == *id })
	if i < 0 {
		return ""
	}
	return d.SuiteRows[i].Name
}

// LinkedID returns the id of the linked skill, or "".
func (d sourceView) LinkedID() string {
	if d.SkillID == nil {
		return ""
	}
	return *d.SkillID
}
