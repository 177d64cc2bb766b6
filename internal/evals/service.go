package evals

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/quota"
	"github.com/whetstone-dev/whetstone/internal/sandbox"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Sources knows the organisations' cloud sources.
type Sources interface {
	// Exists returns an error for the caller unless the organisation has the
	// source; the id is without its prefix.
	Exists(ctx context.Context, q store.Querier, orgID, sourceID string) error
}

// Service keeps suites and runs them.
type Service struct {
	DB      *store.DB
	Jobs    *jobs.Queue
	Blobs   blob.Bucket // keeps imported environments
	Bucket  string      // its name in s3:// references; empty: they are refused
	Sources Sources     // nil: source ids are taken as they come
	Quota   *quota.Service
	Log     *slog.Logger

	// What runs need.
	Subjects  Subjects
	Judge     *judge.Judge
	Sandbox   sandbox.Sandbox
	Packages  *taskpkg.Runner
	Suggester Suggester // nil: nobody is told of what runs find
	Proposer  Proposer  // nil: what improve runs find stays with them
	// Concurrency is how many trials of a run wait for the judge at once; 0
	// means 8.
	Concurrency int
	// Scratch is the folder for what sandboxed programs read and write; empty
	// means the system's.
	Scratch string
	// Closing, if not nil, ends the streams of events when it is closed.
	Closing <-chan struct{}

	slice time.Duration // defaultSlice when 0
}

// Register makes the queue run the jobs of suites, runs and improve runs.
func (s *Service) Register() {
	s.registerSweep()
	s.registerRuns()
	s.registerImproveRuns()
}

// NewSuite describes a suite to be made.
type NewSuite struct {
	SourceID        *string
	Name            string
	SourceKind      SourceKind
	VerifierKind    VerifierKind
	SupportsNoSkill bool
	ResourceLimits  json.RawMessage
	Cases           []Fields
}

// Create makes a suite. Cases that cannot be run yet are kept, and the suite
// says what they lack.
func (s *Service) Create(ctx context.Context, c access.Caller, n NewSuite) (suite Suite, err error) {
	defer fault.Wrap(&err, "create eval suite")
	cases, issues := newCases(c.OrgID, n.VerifierKind, n.Cases)
	if issues = slices.Concat(checkName(n.Name), issues); len(issues) > 0 {
		return suite, fault.Issues(issues...)
	}
	if err := s.checkSource(ctx, c.OrgID, n.SourceID); err != nil {
		return suite, err
	}
	sizes, err := s.measure(ctx, c.OrgID, cases)
	if err != nil {
		return suite, err
	}
	now := store.Now()
	suite = Suite{
		ID: store.NewID(), OrgID: c.OrgID, SourceID: n.SourceID, Name: n.Name, SourceKind: n.SourceKind,
		VerifierKind: n.VerifierKind, SupportsNoSkill: n.SupportsNoSkill, ResourceLimits: n.ResourceLimits,
		Version: 1, CreatedBy: c.UserID, CreatedAt: now, UpdatedAt: now,
	}
	suite.setCases(cases)
	return suite, s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := insertSuite(ctx, tx, suite); err != nil {
			return err
		}
		if err := suite.record(ctx, tx, "evals.suite.create"); err != nil {
			return err
		}
		return s.needEnvironments(ctx, tx, suite, sizes)
	})
}

// record writes down what was done to a suite, and what it is now.
func (s Suite) record(ctx context.Context, tx *store.Tx, action string) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: s.OrgID, Action: action, Target: audit.Target{Kind: "suite", ID: s.ID, Name: s.Name},
		Detail: audit.Detail{"version": s.Version, "cases": s.CaseCount, "verifier": s.VerifierKind},
	})
}

func checkName(name string) []fault.Issue {
	if strings.TrimSpace(name) == "" {
		return []fault.Issue{fault.At("name", "name must not be blank")}
	}
	return nil
}

func (s *Service) checkSource(ctx context.Context, orgID string, sourceID *string) error {
	if sourceID == nil || s.Sources == nil {
		return nil
	}
	return s.Sources.Exists(ctx, s.DB, orgID, *sourceID)
}

// Change is what a patch changes; nil leaves a field as it is.
type Change struct {
	Name            *string
	VerifierKind    *VerifierKind
	SupportsNoSkill *bool
	ResourceLimits  json.RawMessage
	Cases           []Fields // replaces all cases
	// IfVersion is the version that the change was made for.
	IfVersion *int64
}

// Update changes a suite of the organisation. Changes take turns: none is made
// from what another one is about to replace.
func (s *Service) Update(ctx context.Context, orgID, id string, c Change) (suite Suite, err error) {
	defer fault.Wrap(&err, "update eval suite %s", id)
	cases, issues := c.early(orgID)
	if len(issues) > 0 {
		return suite, fault.Issues(issues...)
	}
	sizes, err := s.measure(ctx, orgID, cases)
	if err != nil {
		return suite, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if suite, err = suiteByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		if c.IfVersion != nil && *c.IfVersion != suite.Version {
			return fault.New(fault.Conflict, "The suite has changed: it has the version %d, not %d", suite.Version, *c.IfVersion)
		}
		if issues := c.apply(&suite); len(issues) > 0 {
			return fault.Issues(issues...)
		}
		return s.saveSuite(ctx, tx, &suite, sizes)
	})
	return suite, err
}

// saveSuite also takes the sizes of environments that may be new to the suite.
func (s *Service) saveSuite(ctx context.Context, tx *store.Tx, suite *Suite, sizes map[string]int64) error {
	suite.Version++
	suite.UpdatedAt = store.Now()
	if err := updateSuite(ctx, tx, *suite); err != nil {
		return err
	}
	if err := suite.record(ctx, tx, "evals.suite.change"); err != nil {
		return err
	}
	return s.needEnvironments(ctx, tx, *suite, sizes)
}

// early reads the cases, and finds what is wrong whatever the suite is.
func (c Change) early(orgID string) (cases []Case, issues []fault.Issue) {
	if c.Name != nil {
		issues = checkName(*c.Name)
	}
	if c.Cases == nil {
		return nil, issues
	}
	verifier := StructuredRubric // allows every kind
	if c.VerifierKind != nil {
		verifier = *c.VerifierKind
	}
	cases, more := newCases(orgID, verifier, c.Cases)
	return cases, append(issues, more...)
}

func (c Change) apply(s *Suite) []fault.Issue {
	if c.Name != nil {
		s.Name = *c.Name
	}
	if c.SupportsNoSkill != nil {
		s.SupportsNoSkill = *c.SupportsNoSkill
	}
	if c.ResourceLimits != nil {
		s.ResourceLimits = c.ResourceLimits
	}
	if c.VerifierKind == nil && c.Cases == nil {
		return nil
	}
	if c.VerifierKind != nil {
		s.VerifierKind = *c.VerifierKind
	}
	fields := c.Cases
	if fields == nil {
		fields = s.fields()
	}
	cases, issues := newCases(s.OrgID, s.VerifierKind, fields)
	if len(issues) == 0 {
		s.setCases(cases)
	}
	return issues
}

// Append adds a trigger query to a suite of the source, in the caller's
// transaction. One that the suite has already is not added again.
func (s *Service) Append(ctx context.Context, tx *store.Tx, orgID, sourceID, suiteID string, c json.RawMessage) (suite Suite, err error) {
	defer fault.Wrap(&err, "append to eval suite %s", suiteID)
	if suite, err = suiteByID(ctx, tx, orgID, suiteID, tx.Dialect().ForUpdate()); err != nil {
		return suite, err
	}
	if suite.SourceID == nil || *suite.SourceID != sourceID {
		return suite, fault.New(fault.Conflict, "The suite does not belong to this source")
	}
	if suite.VerifierKind != LLMJudge {
		return suite, fault.New(fault.Conflict, "Only a suite with the verifier llm_judge takes trigger queries")
	}
	added, err := newTrigger(c)
	if err != nil {
		return suite, err
	}
	if slices.ContainsFunc(suite.Cases, func(c Case) bool { return sameTrigger(c, added) }) {
		return suite, nil
	}
	if len(suite.Cases) >= maxCases {
		return suite, fault.New(fault.Conflict, "The suite has %d cases already, which is the most it can have", maxCases)
	}
	cases, issues := newCases(orgID, suite.VerifierKind, append(suite.fields(), added.Fields))
	if len(issues) > 0 {
		return suite, fault.Issues(issues...)
	}
	suite.setCases(cases)
	return suite, s.saveSuite(ctx, tx, &suite, nil)
}

// Remove takes a trigger query out of a suite, in the caller's transaction, and
// reports whether it is not there any more: the last case of a suite stays.
// A suite that is gone has no case.
func (s *Service) Remove(ctx context.Context, tx *store.Tx, orgID, suiteID string, c json.RawMessage) (gone bool, err error) {
	defer fault.Wrap(&err, "remove from eval suite %s", suiteID)
	suite, err := suiteByID(ctx, tx, orgID, suiteID, tx.Dialect().ForUpdate())
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	unwanted, err := newTrigger(c)
	if err != nil {
		return false, err
	}
	left := slices.DeleteFunc(slices.Clone(suite.Cases), func(c Case) bool { return sameTrigger(c, unwanted) })
	if len(left) == len(suite.Cases) || len(left) == 0 {
		return len(left) > 0, nil
	}
	suite.setCases(left)
	return true, s.saveSuite(ctx, tx, &suite, nil)
}

func newTrigger(raw json.RawMessage) (Case, error) {
	var f Fields
	if err := json.Unmarshal(raw, &f); err != nil {
		return Case{}, fault.Invalid("", "the case is not a JSON object")
	}
	c := readCase(f.clean(), LLMJudge)
	if c.Kind != TriggerQuery {
		return c, fault.Invalid("case_kind", "the case must be a trigger_query")
	}
	return c, nil
}

// Suite returns a suite of the organisation with its cases.
func (s *Service) Suite(ctx context.Context, orgID, id string) (Suite, error) {
	return suiteByID(ctx, s.DB, orgID, id, "")
}

// Filter says which suites to list; empty fields let all pass.
type Filter struct {
	SourceID      string
	VerifierKind  VerifierKind
	WithCases     bool // fills Document, not Cases
	Limit, Offset int
}

// Suites lists the organisation's suites, newest first, and their number.
func (s *Service) Suites(ctx context.Context, orgID string, f Filter) ([]Suite, int, error) {
	return suitesOfOrg(ctx, s.DB, orgID, f)
}

// OfSource lists the suites of a source, oldest first, with id, name and
// verifier only.
func (s *Service) OfSource(ctx context.Context, q store.Querier, orgID, sourceID string) ([]Suite, error) {
	return suitesOfSource(ctx, q, orgID, sourceID)
}

// Cases lists the cases of all suites of a source.
func (s *Service) Cases(ctx context.Context, q store.Querier, orgID, sourceID string) (all []json.RawMessage, err error) {
	defer fault.Wrap(&err, "eval cases of source %s", sourceID)
	documents, err := documentsOfSource(ctx, q, orgID, sourceID)
	if err != nil {
		return nil, err
	}
	for _, document := range documents {
		var cases []json.RawMessage
		if err := json.Unmarshal([]byte(document), &cases); err != nil {
			return nil, err
		}
		all = append(all, cases...)
	}
	return all, nil
}

// Delete removes a suite and its runs.
func (s *Service) Delete(ctx context.Context, orgID, id string) (err error) {
	defer fault.Wrap(&err, "delete eval suite %s", id)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		suite, err := suiteByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		freed, err := deleteEnvironments(ctx, tx, suite.ID)
		if err != nil {
			return err
		}
		if err := deleteSuite(ctx, tx, suite); err != nil {
			return err
		}
		if err := suite.record(ctx, tx, "evals.suite.delete"); err != nil {
			return err
		}
		return s.Quota.Add(ctx, tx, orgID, quota.Evals, -total(freed))
	})
}
