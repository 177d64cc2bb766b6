package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// handleImportSuite creates a suite from a file.
func (s *Service) handleImportSuite(v *visit) (answer, error) {
	done, problem := s.takeSuite(v)
	if problem == nil {
		return redirect(pathTo("suites", done.Suite.ID), importText(done)), nil
	}
	view, err := s.suiteList(v)
	if err != nil {
		return answer{}, err
	}
	view.Import = suiteForm{
		Name: v.PostFormValue("name"), Source: v.PostFormValue("source"), Partial: v.PostFormValue("partial") != "",
	}
	return show("suites", "Suites", view).refused(problem)
}

// takeSuite reads the upload and imports it.
func (s *Service) takeSuite(v *visit) (done suites.ImportResult, err error) {
	form, err := readUpload(v)
	if err != nil {
		return done, err
	}
	defer form.Close()
	files := form.Files["file"]
	if len(files) != 1 {
		return done, fault.Invalid("file", "Choose a file")
	}
	// Without a name the suite is called like the file.
	f := suites.Import{
		Name: strings.TrimSpace(v.PostFormValue("name")), Filename: files[0].Filename,
		Content: files[0].Content, Size: files[0].Content.Size(), Partial: v.PostFormValue("partial") != "",
	}
	if source := v.PostFormValue("source"); source != "" {
		f.SourceID = &source
	}
	return s.Suites.Import(v.Context(), v.Caller, f)
}

// importText describes the result of an import. Partial imports say what was
// skipped, which would go unnoticed otherwise.
func importText(done suites.ImportResult) string {
	text := "The suite was imported."
	for _, r := range done.Refused {
		text += " " + r.Task + " was skipped: " + strings.Join(r.Reasons, "; ") + "."
	}
	for _, w := range done.Warnings {
		text += " " + w + "."
	}
	return short(maxFlash, text)
}

// Formats are the options of the select of export formats.
func (s suiteView) Formats() []choice {
	return []choice{
		{string(suites.FormatSuite), "suite (everything)"},
		{string(suites.FormatEvals), "evals.json (rubric cases)"},
		{string(suites.FormatTrigger), "trigger queries"},
		{string(suites.FormatPluginEval), "claude plugin eval (zip)"},
	}
}

// handleExportSuite sends the suite as a file. Formats other than "suite" leave out
// cases that they cannot express.
func (s *Service) handleExportSuite(v *visit) (answer, error) {
	format := suites.Format(v.URL.Query().Get("format"))
	if !slices.Contains(suites.Formats(), format) {
		return answer{}, fault.Invalid("format", "format must be suite, evals.json, trigger or plugin-eval")
	}
	suite, file, err := s.Suites.Export(v.Context(), v.Caller.OrgID, v.PathValue("id"), format)
	return raw(func(w http.ResponseWriter) error {
		w.Header().Set("Content-Disposition", `attachment; filename="`+format.Filename(suite)+`"`)
		return send(w, format.ContentType(), file)
	}), err
}

// handleImportRun makes a run of the suite of a result of another tool. A result
// that was imported before leads to its run: importing is idempotent.
func (s *Service) handleImportRun(v *visit) (answer, error) {
	id := v.PathValue("id")
	r, added, problem := s.takeRun(v, id)
	switch {
	case problem == nil && added:
		return redirect(pathTo("runs", r.ID), "The run was imported."), nil
	case problem == nil:
		return redirect(pathTo("runs", r.ID), "The run was imported before."), nil
	}
	view, err := s.suiteView(v, id)
	if err != nil {
		return answer{}, err
	}
	view.Troubles = troubles(view.Issues, view.Form.Text, false)
	return show("suite", view.Name, view).refused(problem)
}

// takeRun reads the upload. added is false if the run was there already.
func (s *Service) takeRun(v *visit, suiteID string) (r runs.Run, added bool, err error) {
	form, err := readUpload(v)
	if err != nil {
		return r, false, err
	}
	defer form.Close()
	if len(form.Files["file"]) != 1 {
		return r, false, fault.Invalid("file", "Choose a file")
	}
	return s.Runs.Import(v.Context(), v.Caller, suiteID, form.Files["file"][0].Content)
}
