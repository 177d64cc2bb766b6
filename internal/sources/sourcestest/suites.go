package sourcestest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/sources"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/suggestions"
)

// Suites keeps suites in a table of its own. It implements suggestions.Suites.
type Suites struct {
	t  *testing.T
	db *store.DB
}

// MaxCases is how many cases a suite holds.
const MaxCases = 500

func newSuites(t *testing.T, db *store.DB) *Suites {
	t.Helper()
	_, err := db.Exec(t.Context(), `
		CREATE TABLE test_suites (id TEXT PRIMARY KEY, org_id TEXT NOT NULL, source_id TEXT NOT NULL, name TEXT NOT NULL,
			kind TEXT NOT NULL, cases TEXT NOT NULL)`)
	if err != nil {
		t.Fatal(err)
	}
	return &Suites{t, db}
}

// Add makes a suite of a source.
func (s *Suites) Add(orgID, sourceID, kind string, cases ...Object) string {
	s.t.Helper()
	raw, err := json.Marshal(append([]Object{}, cases...))
	if err != nil {
		s.t.Fatal(err)
	}
	id := uuid.NewString()
	_, err = s.db.Exec(s.t.Context(), `INSERT INTO test_suites (id, org_id, source_id, name, kind, cases) VALUES ($1, $2, $3, $4, $5, $6)`,
		id, orgID, strings.TrimPrefix(sourceID, sources.Prefix), "suite of "+sourceID, kind, string(raw))
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

type saved struct {
	suggestions.Suite
	orgID, sourceID, cases string
}

func (s *Suites) find(ctx context.Context, q store.Querier, condition string, args ...any) ([]saved, error) {
	rows, err := q.Query(ctx, `SELECT id, name, kind, org_id, source_id, cases FROM test_suites WHERE `+condition, args...)
	return store.All(rows, err, func(row store.Row) (one saved, err error) {
		err = row.Scan(&one.ID, &one.Name, &one.VerifierKind, &one.orgID, &one.sourceID, &one.cases)
		return one, err
	})
}

// Append implements suggestions.Suites.
func (s *Suites) Append(ctx context.Context, tx *store.Tx, orgID, sourceID, suiteID string, c json.RawMessage) (suggestions.Suite, error) {
	found, err := s.find(ctx, tx, "org_id = $1 AND id = $2"+tx.Dialect().ForUpdate(), orgID, suiteID)
	if err != nil {
		return suggestions.Suite{}, err
	}
	if len(found) == 0 {
		return suggestions.Suite{}, fault.New(fault.NotFound, "Eval suite not found")
	}
	suite := found[0]
	if suite.sourceID != sourceID || suite.VerifierKind != "llm_judge" {
		return suite.Suite, fault.New(fault.Conflict, "The suite does not take this case")
	}
	cases := []json.RawMessage{}
	if err := json.Unmarshal([]byte(suite.cases), &cases); err != nil {
		return suite.Suite, err
	}
	if slices.ContainsFunc(cases, func(k json.RawMessage) bool { return string(k) == string(c) }) {
		return suite.Suite, nil
	}
	if len(cases) >= MaxCases {
		return suite.Suite, fault.New(fault.Conflict, "The suite has %d cases already", MaxCases)
	}
	raw, err := json.Marshal(append(cases, c))
	if err != nil {
		return suite.Suite, err
	}
	_, err = tx.Exec(ctx, `UPDATE test_suites SET cases = $2 WHERE id = $1`, suiteID, string(raw))
	return suite.Suite, err
}

// Patch adds a case as another editor of the suite does.
func (s *Suites) Patch(suiteID string, c Object) error {
	return s.db.InTx(s.t.Context(), func(tx *store.Tx) error {
		found, err := s.find(s.t.Context(), tx, "id = $1"+tx.Dialect().ForUpdate(), suiteID)
		if err != nil {
			return err
		}
		var cases []Object
		if err := json.Unmarshal([]byte(found[0].cases), &cases); err != nil {
			return err
		}
		raw, err := json.Marshal(append(cases, c))
		if err != nil {
			return err
		}
		_, err = tx.Exec(s.t.Context(), `UPDATE test_suites SET cases = $2 WHERE id = $1`, suiteID, string(raw))
		return err
	})
}

// Remove implements suggestions.Suites.
func (s *Suites) Remove(ctx context.Context, tx *store.Tx, orgID, suiteID string, c json.RawMessage) (bool, error) {
	found, err := s.find(ctx, tx, "org_id = $1 AND id = $2"+tx.Dialect().ForUpdate(), orgID, suiteID)
	if err != nil || len(found) == 0 {
		return true, err
	}
	cases := []json.RawMessage{}
	if err := json.Unmarshal([]byte(found[0].cases), &cases); err != nil {
		return false, err
	}
	cases = slices.DeleteFunc(cases, func(k json.RawMessage) bool { return string(k) == string(c) })
	if len(cases) == 0 {
		return false, nil
	}
	raw, err := json.Marshal(cases)
	if err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, `UPDATE test_suites SET cases = $2 WHERE id = $1`, suiteID, string(raw))
	return true, err
}

// OfSource implements suggestions.Suites.
func (s *Suites) OfSource(ctx context.Context, q store.Querier, orgID, sourceID string) ([]suggestions.Suite, error) {
	found, err := s.find(ctx, q, "org_id = $1 AND source_id = $2 ORDER BY id", orgID, sourceID)
	all := []suggestions.Suite{}
	for _, f := range found {
		all = append(all, f.Suite)
	}
	return all, err
}

// Cases implements suggestions.Suites.
func (s *Suites) Cases(ctx context.Context, q store.Querier, orgID, sourceID string) ([]json.RawMessage, error) {
	found, err := s.find(ctx, q, "org_id = $1 AND source_id = $2", orgID, sourceID)
	var all []json.RawMessage
	for _, f := range found {
		var some []json.RawMessage
		if err := json.Unmarshal([]byte(f.cases), &some); err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, err
}

// CasesOf returns the cases of a suite.
func (s *Suites) CasesOf(suiteID string) []Object {
	s.t.Helper()
	found, err := s.find(s.t.Context(), s.db, "id = $1", suiteID)
	if err != nil {
		s.t.Fatal(err)
	}
	var all []Object
	if err := json.Unmarshal([]byte(found[0].cases), &all); err != nil {
		s.t.Fatal(err)
	}
	return all
}
