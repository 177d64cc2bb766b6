package suggestions

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// A Destination is the suite that cases go to: any of the organisation that takes trigger
// queries, or a new one. An empty one is the newest suite for them, or else a new one.
type Destination struct {
	SuiteID string
	NewName string // of a new suite
}

// check validates a destination that comes from outside.
func (to Destination) check() error {
	switch {
	case to.SuiteID != "" && to.NewName != "":
		return fault.Invalid("new_suite", "give suite_id or new_suite, not both")
	case to.NewName != "" && strings.TrimSpace(to.NewName) == "":
		return fault.Invalid("new_suite.name", "new_suite.name must not be blank")
	}
	return nil
}

// add adds cases to their destination, and returns how many it did not have. By default that
// is the newest suite of the sources, or of none but with the name. A new suite belongs to the
// first source.
func (s *Service) add(
	ctx context.Context, tx *store.Tx, c access.Caller, to Destination, sourceIDs []string, name string, cases []Decision,
) (suite suites.Suite, added int, err error) {
	queries := make([]json.RawMessage, len(cases))
	for i, d := range cases {
		if queries[i], err = d.triggerCase(); err != nil {
			return suite, 0, err
		}
	}
	if to == (Destination{}) {
		to.SuiteID, err = s.Suites.NewestFor(ctx, tx, c.OrgID, sourceIDs, name)
		if fault.Is(err, fault.NotFound) {
			to.NewName, err = name, nil
		}
		if err != nil {
			return suite, 0, err
		}
	}
	if to.NewName == "" {
		return s.Suites.Append(ctx, tx, c, "", to.SuiteID, queries...)
	}
	n := suites.NewSuite{Name: to.NewName}
	if len(sourceIDs) > 0 {
		n.SourceID = &sourceIDs[0]
	}
	suite, err = s.Suites.CreateOf(ctx, tx, c, n, queries)
	return suite, suite.CaseCount, err
}

// AppliedDrafts says what became of the drafts of a source.
type AppliedDrafts struct {
	Suite   suites.Suite
	Added   int // cases
	Already int // cases that the suite had, or that were applied before
}

// ApplyDrafts adds drafts of a source, which are accepted suggestions without a suite, to a
// suite. ids are those of the reviews or of their suggestions; without any it adds all.
// It is idempotent: what was applied is a draft no more.
func (s *Service) ApplyDrafts(
	ctx context.Context, c access.Caller, sourceID string, ids []string, to Destination,
) (out AppliedDrafts, err error) {
	defer fault.Wrap(&err, "drafts of source %s", sourceID)
	if err := to.check(); err != nil {
		return out, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		out = AppliedDrafts{}
		src, err := s.Sources.Lock(ctx, tx, c.OrgID, sourceID)
		if err != nil {
			return err
		}
		accepted, err := acceptedOf(ctx, tx, src)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !slices.ContainsFunc(accepted, func(r Review) bool { return r.ID == id || r.SuggestionID == id }) {
				return fault.Invalid("draft_ids", "the source has no draft %s", id)
			}
		}
		var drafts, applied []Review
		var cases []Decision
		for _, r := range accepted {
			switch {
			case len(ids) > 0 && !slices.Contains(ids, r.ID) && !slices.Contains(ids, r.SuggestionID):
			case r.AppliedSuiteID != nil:
				applied = append(applied, r)
			default:
				drafts, cases = append(drafts, r), append(cases, r.Decision)
			}
		}
		suite := to
		if len(drafts) == 0 && to.SuiteID == "" {
			// There is nothing to make a suite of. A second call finds that of the first.
			if len(applied) == 0 {
				return fault.New(fault.Conflict, "The source has no drafts")
			}
			suite = Destination{SuiteID: *applied[len(applied)-1].AppliedSuiteID}
		}
		if out.Suite, out.Added, err = s.add(ctx, tx, c, suite, []string{src.ID}, src.Label, cases); err != nil {
			return err
		}
		out.Already = len(drafts) - out.Added
		for _, r := range applied {
			if len(ids) > 0 || *r.AppliedSuiteID == out.Suite.ID {
				out.Already++
			}
		}
		target, at := SavedSuite, store.Now()
		for _, r := range drafts {
			r.AcceptTarget, r.AppliedSuiteID, r.AppliedAt = &target, &out.Suite.ID, &at
			if _, err := saveReview(ctx, tx, src, r); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}
