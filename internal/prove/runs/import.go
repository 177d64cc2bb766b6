package runs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/imported"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/sse"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// errKnown means that the suite has a run with this file's digest already.
var errKnown = errors.New("the run was imported before")

// Import stores the result of a run that another tool made of a suite's cases. The run
// is marked as imported, and no figure outside its own page includes it. Import is
// idempotent: for a file that was imported before, it returns the existing run and
// false.
func (s *Service) Import(
	ctx context.Context, caller access.Caller, suiteID string, file *io.SectionReader,
) (r Run, added bool, err error) {
	defer fault.Wrap(&err, "import a run of suite %s", suiteID)
	if file.Size() > imported.MaxFile {
		return r, false, fault.New(fault.TooLarge, "The file is over the limit of 10 MiB")
	}
	raw, err := io.ReadAll(io.NewSectionReader(file, 0, file.Size()))
	if err != nil {
		return r, false, err
	}
	result, err := imported.Parse(raw)
	if err != nil {
		return r, false, err
	}
	r, trials, err := newImported(caller, suiteID, result)
	if err != nil {
		return r, false, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := s.Suites.MayChange(ctx, tx, caller, suiteID); err != nil {
			return err
		}
		return addImported(ctx, tx, r, trials)
	})
	if errors.Is(err, errKnown) {
		id, err := imported.RunOf(ctx, s.DB, suiteID, result.Origin.Digest)
		if err == nil {
			r, err = s.Get(ctx, caller.OrgID, id)
		}
		return r, false, err
	}
	return r, true, err
}

// newImported converts a parsed file into a run that is over, and its trials.
func newImported(caller access.Caller, suiteID string, result imported.Result) (Run, []Trial, error) {
	ended := result.StartedAt.Add(result.Duration)
	r := Run{
		ID: store.NewID(), OrgID: caller.OrgID, SuiteID: suiteID, Status: Succeeded, Baseline: NoBaseline,
		Imported:  &result.Origin,
		CreatedBy: caller.UserID, CreatedAt: store.Now(), StartedAt: &result.StartedAt, FinishedAt: &ended,
		verifier: suites.Deterministic, caseCount: len(result.Cases),
	}
	r.Terms.Agent = &suites.Agent{Name: "claude-code", Model: result.Origin.Model}
	if result.Compared {
		r.Baseline, r.noSkill = NoSkill, true
	}
	if result.Judged {
		r.verifier = suites.LLMJudge
	}
	// A run has one subject: the first plugin.
	for _, p := range result.Origin.Plugins[:min(1, len(result.Origin.Plugins))] {
		r.Subject.Name, r.Subject.Label = p.Name, p.Version
	}
	// Why the tool stopped early. Reasons we don't know count as a cancellation.
	switch result.Origin.Partial {
	case "":
	case "cost_ceiling":
		r.Status = BudgetSpent
	case "auth_failed":
		problem := "the tool could not sign in to the model"
		r.Status, r.Error = Failed, &problem
	default:
		r.Status = Cancelled
	}
	var trials []Trial
	fields := make([]suites.Fields, len(result.Cases))
	for i, c := range result.Cases {
		fields[i] = c.Fields
		r.Trials = max(r.Trials, len(c.With), len(c.Without))
		for n, t := range c.With {
			trials = append(trials, importedTrial(TrialKey{Case: i, Arm: WithSkill, N: n + 1}, t))
		}
		for n, t := range c.Without {
			trials = append(trials, importedTrial(TrialKey{Case: i, Arm: WithoutSkill, N: n + 1}, t))
		}
	}
	var err error
	r.Total = len(trials)
	if r.document, err = json.Marshal(fields); err == nil && len(r.document) > suites.MaxImportedCases {
		err = fault.New(fault.TooLarge, "The cases of the file are over the limit of 4 MiB together")
	}
	return r, trials, err
}

func importedTrial(key TrialKey, t imported.Trial) Trial {
	out := Trial{
		TrialKey: key, Verdict: Verdict(t.Verdict), Score: t.Score, OutputTail: t.Output, Duration: t.Duration,
		Evidence: Evidence{Summary: t.Summary, Graders: t.Graders, Reported: &t.Reported},
	}
	if t.Error != "" {
		out.Error = &t.Error
	}
	return out
}

// addImported stores a run that is over by the steps that a worker takes (insert, add
// trials, start, finish), so its counts, scores and events are like those of any run.
func addImported(ctx context.Context, tx *store.Tx, r Run, trials []Trial) error {
	cases, err := r.cases()
	if err != nil {
		return err
	}
	results := resultsOf(r.Baseline, cases, trials)
	skipUndecided(results)
	r.Summary = summarize(results)
	queued := r
	queued.Status = Queued
	if err := insertRun(ctx, tx, queued); err != nil {
		return err
	}
	added, err := imported.Insert(ctx, tx, r.ID, r.SuiteID, *r.Imported)
	if err != nil {
		return err
	}
	if !added {
		return errKnown
	}
	limit := r.tailLimit()
	for i := range trials {
		trials[i].OutputTail = tail(trials[i].OutputTail, limit)
	}
	for batch := range slices.Chunk(trials, flushSize) {
		if _, err := insertTrials(ctx, tx, r.ID, batch); err != nil {
			return err
		}
	}
	if _, err := addDone(ctx, tx, r.ID, int64(len(trials))); err != nil {
		return err
	}
	if _, err := markRunStarted(ctx, tx, r.ID, *r.StartedAt); err != nil {
		return err
	}
	if err := markRunFinished(ctx, tx, r); err != nil {
		return err
	}
	if err := sse.Insert(ctx, tx, r.ID, []sse.Event{statusEvent(r)}); err != nil {
		return err
	}
	return r.audit(ctx, tx, "evals.run.import")
}

type importRunInput struct {
	ID string `path:"id" doc:"Id of the suite"`
	httpapi.Form
}

// importedOutput is a run made elsewhere in an answer.
type importedOutput struct {
	oneRunOutput
	added bool
}

// HTTPStatus is 201 for a new run, and 200 for one that was imported before.
func (o importedOutput) HTTPStatus() int {
	if o.added {
		return http.StatusCreated
	}
	return http.StatusOK
}

func (s *Service) handleImport(ctx context.Context, in importRunInput) (importedOutput, error) {
	files := in.Files["file"]
	if len(files) != 1 {
		return importedOutput{}, fault.Invalid("file", "file must be one file part")
	}
	r, added, err := s.Import(ctx, access.From(ctx), in.ID, files[0].Content)
	if err != nil {
		return importedOutput{}, err
	}
	report, err := s.Report(ctx, r.OrgID, r.ID, "")
	return importedOutput{oneRunOutput{newReportOutput(report)}, added}, err
}
