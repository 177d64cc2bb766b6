package suites

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/environments"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// Service keeps suites.
type Service struct {
	DB    *store.DB
	Jobs  *jobs.Queue
	Blobs blob.Bucket // keeps imported environments
	// Bucket is the name of Blobs in s3:// references, e.g. "whetstone" in
	// "s3://whetstone/environments/...". Empty refuses such references.
	Bucket  string
	Sources *sources.Service
	Quota   *quota.Service
	Memory  *httpapi.Budget // reserved for lists with cases
	// Environments knows which images of tasks can be had; nil means none.
	Environments *environments.Service
	Log          *slog.Logger
}

// NewSuite describes a suite to create.
type NewSuite struct {
	SourceID        *string
	Name            string
	SourceKind      SourceKind
	VerifierKind    VerifierKind
	SupportsNoSkill *bool // nil: if a case has a prompt
	ResourceLimits  json.RawMessage
	Cases           []Fields
}

// Create stores a suite. Cases that cannot be run yet are stored, too; the
// suite's Issues say what is missing.
func (s *Service) Create(ctx context.Context, c access.Caller, n NewSuite) (suite Suite, err error) {
	defer fault.Wrap(&err, "create eval suite")
	if suite, err = n.suite(c); err != nil {
		return suite, err
	}
	if n.SourceID != nil {
		if err := s.Sources.Exists(ctx, s.DB, c.OrgID, *n.SourceID); err != nil {
			return suite, err
		}
	}
	sizes, err := s.environmentSizes(ctx, c.OrgID, suite.Cases)
	if err != nil {
		return suite, err
	}
	return suite, s.DB.InTx(ctx, func(tx *store.Tx) error { return s.insert(ctx, tx, c, suite, sizes) })
}

// CreateOf is Create in the caller's transaction, with trigger queries, which have no
// environments to look up, and for a source that is locked.
func (s *Service) CreateOf(
	ctx context.Context, tx *store.Tx, c access.Caller, n NewSuite, queries []json.RawMessage,
) (suite Suite, err error) {
	defer fault.Wrap(&err, "create eval suite")
	n.SourceKind, n.VerifierKind = Manual, LLMJudge
	if n.Cases, err = withTriggers(nil, queries); err != nil {
		return suite, err
	}
	if suite, err = n.suite(c); err != nil {
		return suite, err
	}
	return suite, s.insert(ctx, tx, c, suite, nil)
}

// suite returns the suite as it is stored, or what is wrong with it.
func (n NewSuite) suite(c access.Caller) (Suite, error) {
	cases, issues := newCases(c.OrgID, n.VerifierKind, n.Cases)
	if issues = slices.Concat(validateName(n.Name), issues); len(issues) > 0 {
		return Suite{}, fault.Issues(issues...)
	}
	now := store.Now()
	suite := Suite{
		ID: store.NewID(), OrgID: c.OrgID, SourceID: n.SourceID, Name: n.Name, SourceKind: n.SourceKind,
		VerifierKind: n.VerifierKind, ResourceLimits: n.ResourceLimits,
		Version: 1, CreatedBy: c.UserID, CreatedAt: now, UpdatedAt: now,
	}
	suite.setCases(cases)
	suite.SupportsNoSkill = slices.ContainsFunc(suite.Cases, func(c Case) bool { return c.Subject.Prompt != nil })
	if n.SupportsNoSkill != nil {
		suite.SupportsNoSkill = *n.SupportsNoSkill
	}
	return suite, nil
}

func (s *Service) insert(ctx context.Context, tx *store.Tx, c access.Caller, suite Suite, sizes map[string]int64) error {
	if suite.SourceID != nil {
		if err := s.Sources.MayChangeSuite(ctx, tx, c, "", suite.SourceID); err != nil {
			return err
		}
	}
	if err := insertSuite(ctx, tx, suite); err != nil {
		return err
	}
	if err := recordEdit(ctx, tx, c, Suite{}, suite); err != nil {
		return err
	}
	if err := suite.audit(ctx, tx, "evals.suite.create"); err != nil {
		return err
	}
	return s.replaceEnvironments(ctx, tx, suite, sizes)
}

// audit writes an entry of the audit log about the suite in its new state.
func (s Suite) audit(ctx context.Context, tx *store.Tx, action string) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: s.OrgID, Action: action, Target: audit.Target{Kind: "suite", ID: s.ID, Name: s.Name},
		Detail: audit.Detail{"version": s.Version, "cases": s.CaseCount, "verifier": s.VerifierKind},
	})
}

func validateName(name string) []fault.Issue {
	if strings.TrimSpace(name) == "" {
		return []fault.Issue{fault.At("name", "name must not be blank")}
	}
	return nil
}

// Change is a partial update; nil leaves a field as it is.
type Change struct {
	Name            *string
	VerifierKind    *VerifierKind
	SupportsNoSkill *bool
	ResourceLimits  json.RawMessage
	Cases           []Fields // replaces all cases
	// IfVersion makes the update conditional: it is a Conflict unless the suite
	// has this version (optimistic concurrency control).
	IfVersion *int64
}

// Update changes a suite of the organisation. The suite's row is locked while
// it is changed, so concurrent updates are applied one after the other.
func (s *Service) Update(ctx context.Context, by access.Caller, id string, c Change) (suite Suite, err error) {
	defer fault.Wrap(&err, "update eval suite %s", id)
	// Parsing up to 500 cases and asking the bucket for sizes takes time, so both
	// happen before the row is locked.
	cases, issues := c.validate(by.OrgID)
	if len(issues) > 0 {
		return suite, fault.Issues(issues...)
	}
	sizes, err := s.environmentSizes(ctx, by.OrgID, cases)
	if err != nil {
		return suite, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if suite, err = s.lock(ctx, tx, by, id); err != nil {
			return err
		}
		before := suite
		if c.IfVersion != nil && *c.IfVersion != suite.Version {
			return fault.New(fault.Conflict, "The suite has changed: it has the version %d, not %d", suite.Version, *c.IfVersion)
		}
		if issues := c.apply(&suite); len(issues) > 0 {
			return fault.Issues(issues...)
		}
		return s.save(ctx, tx, by, before, &suite, sizes)
	})
	return suite, err
}

// lock finds a suite that the caller may change, and locks its row.
func (s *Service) lock(ctx context.Context, tx *store.Tx, c access.Caller, id string) (Suite, error) {
	suite, err := suiteByID(ctx, tx, c.OrgID, id, tx.Dialect().ForUpdate())
	if err != nil {
		return suite, err
	}
	return suite, s.Sources.MayChangeSuite(ctx, tx, c, suite.ID, suite.SourceID)
}

// MayChange returns an error unless the caller may change the suite, or add runs that
// were made elsewhere to it.
func (s *Service) MayChange(ctx context.Context, tx *store.Tx, c access.Caller, id string) error {
	_, err := s.lock(ctx, tx, c, id)
	return err
}

// save writes a changed suite as its next version. sizes has the environments that may
// be new to the suite, by blob key.
func (s *Service) save(
	ctx context.Context, tx *store.Tx, c access.Caller, before Suite, suite *Suite, sizes map[string]int64,
) error {
	suite.Version++
	suite.UpdatedAt = store.Now()
	if err := updateSuite(ctx, tx, *suite); err != nil {
		return err
	}
	if err := recordEdit(ctx, tx, c, before, *suite); err != nil {
		return err
	}
	if err := suite.audit(ctx, tx, "evals.suite.change"); err != nil {
		return err
	}
	return s.replaceEnvironments(ctx, tx, *suite, sizes)
}

// validate reads the cases of a change, and returns the issues that do not
// depend on the suite it is applied to.
func (c Change) validate(orgID string) (cases []Case, issues []fault.Issue) {
	if c.Name != nil {
		issues = validateName(*c.Name)
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

// apply applies the change to a suite whose row is locked, and returns the issues that
// keep the result from being stored.
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
		fields = s.fields() // another verifier may not allow the kinds of the old cases
	}
	cases, issues := newCases(s.OrgID, s.VerifierKind, fields)
	if len(issues) == 0 {
		s.setCases(cases)
	}
	return issues
}

// Append adds trigger queries to a suite, in the caller's transaction, and returns how
// many it added. It is idempotent: a query that the suite already has is not added
// again. A suite of another source or of none, unless sourceID is "", one with another
// verifier and one that is full are a Conflict.
func (s *Service) Append(
	ctx context.Context, tx *store.Tx, by access.Caller, sourceID, suiteID string, queries ...json.RawMessage,
) (suite Suite, added int, err error) {
	defer fault.Wrap(&err, "append to eval suite %s", suiteID)
	if suite, err = suiteByID(ctx, tx, by.OrgID, suiteID, tx.Dialect().ForUpdate()); err != nil {
		return suite, 0, err
	}
	if sourceID != "" && (suite.SourceID == nil || *suite.SourceID != sourceID) {
		return suite, 0, fault.New(fault.Conflict, "The suite does not belong to this source")
	}
	if suite.VerifierKind != LLMJudge {
		return suite, 0, fault.New(fault.Conflict, "Only a suite with the verifier llm_judge takes trigger queries")
	}
	fields, err := withTriggers(suite.Cases, queries)
	if err != nil {
		return suite, 0, err
	}
	if added = len(fields) - len(suite.Cases); added == 0 {
		return suite, 0, nil
	}
	if err := s.Sources.MayChangeSuite(ctx, tx, by, suite.ID, suite.SourceID); err != nil {
		return suite, 0, err
	}
	if len(fields) > maxCases {
		return suite, 0, fault.New(fault.Conflict, "The suite would have %d cases, and takes at most %d", len(fields), maxCases)
	}
	cases, issues := newCases(by.OrgID, suite.VerifierKind, fields)
	if len(issues) > 0 {
		return suite, 0, fault.Issues(issues...)
	}
	before := suite
	suite.setCases(cases)
	return suite, added, s.save(ctx, tx, by, before, &suite, nil)
}

// withTriggers returns the fields of cases, and of the queries that aren't among them.
func withTriggers(cases []Case, queries []json.RawMessage) ([]Fields, error) {
	all, has := slices.Clone(cases), map[string]bool{}
	for _, c := range cases {
		has[c.triggerKey()] = true
	}
	for _, raw := range queries {
		query, err := parseTrigger(raw)
		if err != nil {
			return nil, err
		}
		if key := query.triggerKey(); !has[key] {
			has[key], all = true, append(all, query)
		}
	}
	return Suite{Cases: all}.fields(), nil
}

// Remove deletes a trigger query from a suite, in the caller's transaction, and reports
// whether it is gone. It stays only if it is the last case, since a suite is never
// empty. In a missing suite it counts as gone.
func (s *Service) Remove(
	ctx context.Context, tx *store.Tx, by access.Caller, suiteID string, c json.RawMessage,
) (gone bool, err error) {
	defer fault.Wrap(&err, "remove from eval suite %s", suiteID)
	suite, err := s.lock(ctx, tx, by, suiteID)
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	unwanted, err := parseTrigger(c)
	if err != nil {
		return false, err
	}
	left := slices.DeleteFunc(slices.Clone(suite.Cases), func(c Case) bool { return c.triggerKey() == unwanted.triggerKey() })
	if len(left) == len(suite.Cases) || len(left) == 0 {
		return len(left) > 0, nil
	}
	before := suite
	suite.setCases(left)
	return true, s.save(ctx, tx, by, before, &suite, nil)
}

// parseTrigger parses a case that must be a trigger query.
func parseTrigger(raw json.RawMessage) (Case, error) {
	var f Fields
	if err := json.Unmarshal(raw, &f); err != nil {
		return Case{}, fault.Invalid("", "the case is not a JSON object")
	}
	c := parseCase(cleanFields(f), LLMJudge)
	if c.Kind != TriggerQuery {
		return c, fault.Invalid("case_kind", "the case must be a trigger_query")
	}
	return c, nil
}

// Get returns a suite of the organisation with its cases.
func (s *Service) Get(ctx context.Context, orgID, id string) (Suite, error) {
	return suiteByID(ctx, s.DB, orgID, id, "")
}

// Ever reports whether a source that was ever linked to the skill has had a suite, even
// if both are deleted by now.
func (s *Service) Ever(ctx context.Context, q store.Querier, orgID, skillID string) (bool, error) {
	linked, err := s.Sources.EverLinked(ctx, q, orgID, skillID)
	if err != nil || len(linked) == 0 {
		return false, err
	}
	return hadSuite(ctx, q, orgID, linked)
}

// Exists returns an error unless the organisation has the suite.
func (s *Service) Exists(ctx context.Context, orgID, id string) error {
	return suiteExists(ctx, s.DB, orgID, id, "")
}

// Keep is Exists, and keeps the suite from being deleted until the transaction ends.
func (s *Service) Keep(ctx context.Context, tx *store.Tx, orgID, id string) error {
	return suiteExists(ctx, tx, orgID, id, tx.Dialect().ForKeyShare())
}

// Filter selects suites for List; zero fields match all.
type Filter struct {
	SourceID     string
	VerifierKind VerifierKind
	WithCases    bool   // fills Document, not Cases
	Search       string // in the name, when not empty
	store.Page
}

// documentCopies is how many copies of a list's cases are in memory at once: as they
// come from the database, as fields of the response, and two while it is encoded.
const documentCopies = 4

// List returns a page of the organisation's suites, newest first, and the total number.
// The memory that their cases take, up to MaxImportedCases for each suite, stays
// reserved in the budget until ctx is done.
func (s *Service) List(ctx context.Context, orgID string, f Filter) ([]Suite, int, error) {
	if f.WithCases {
		size, err := documentBytes(ctx, s.DB, orgID, f)
		if err != nil {
			return nil, 0, err
		}
		release, err := s.Memory.Reserve(ctx, documentCopies*size)
		if err != nil {
			return nil, 0, err
		}
		context.AfterFunc(ctx, release)
	}
	return suitesOfOrg(ctx, s.DB, orgID, f)
}

// Cases returns the cases of all suites of a source, unparsed.
func (s *Service) Cases(
	ctx context.Context, q store.Querier, orgID, sourceID string,
) (all []json.RawMessage, err error) {
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

// Delete removes a suite. Its runs and improve runs go with it: their tables
// refer to the suite with ON DELETE CASCADE.
func (s *Service) Delete(ctx context.Context, c access.Caller, id string) (err error) {
	defer fault.Wrap(&err, "delete eval suite %s", id)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		suite, err := s.lock(ctx, tx, c, id)
		if err != nil {
			return err
		}
		freed, err := deleteEnvironments(ctx, tx, suite.ID)
		if err != nil {
			return err
		}
		if err := recordEdit(ctx, tx, c, suite, Suite{ID: suite.ID, Version: suite.Version + 1}); err != nil {
			return err
		}
		if err := deleteSuite(ctx, tx, suite); err != nil {
			return err
		}
		if err := suite.audit(ctx, tx, "evals.suite.delete"); err != nil {
			return err
		}
		return s.Quota.Add(ctx, tx, c.OrgID, quota.Evals, -sum(freed))
	})
}
