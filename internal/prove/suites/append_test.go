package suites_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// appendCase adds a case as package suggestions does.
func appendCase(c *client, sourceID, suiteID string, o object) (suite suites.Suite, err error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return suite, err
	}
	err = c.World.DB.InTx(c.T.Context(), func(tx *store.Tx) error {
		suite, _, err = c.World.Suites.Append(c.T.Context(), tx, access.Caller{OrgID: c.Org.ID, UserID: c.User.ID}, sourceID, suiteID, raw)
		return err
	})
	return suite, err
}

func TestAppend(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		source := c.Source()
		id := c.Create(with(judged(trigger("Extract  tables")), object{"source_id": source}))["id"].(string)
		for _, row := range []struct {
			o     object
			cases int
		}{
			{trigger(" extract tables "), 1},
			{with(trigger("extract tables"), object{"expectation": "should_not_trigger"}), 2},
			{with(trigger("extract rows"), object{"invocation_type": "implicit"}), 3},
			{trigger("Extract rows"), 3},
		} {
			suite, err := appendCase(c, source, id, row.o)
			if err != nil || suite.CaseCount != row.cases || suite.Name != "Triggers" || !suite.Runnable() {
				t.Errorf("%v: %d cases, want %d: %v", row.o, suite.CaseCount, row.cases, err)
			}
		}
		suite := c.Get(suitesPath + "/" + id).Field("suite")
		if last := apptest.List(t, suite, "cases_json")[2]; last["invocation_type"] != "implicit" || last["id"] == nil ||
			suite["version"] != 3.0 {
			t.Errorf("version %v, last case %v", suite["version"], last)
		}
	})
}

func TestRemove(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c, other := w.Org("acme"), w.Org("other")
		id := c.Create(judged(trigger("Extract  tables"), trigger("extract rows")))["id"].(string)
		remove := func(orgID, suiteID string, o object) (gone bool, err error) {
			raw, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			err = db.InTx(t.Context(), func(tx *store.Tx) error {
				gone, err = w.Suites.Remove(t.Context(), tx, access.Caller{OrgID: orgID, UserID: c.User.ID}, suiteID, raw)
				return err
			})
			return gone, err
		}
		for _, row := range []struct {
			org, suite string
			o          object
			gone       bool
			cases      float64
		}{
			{c.Org.ID, id, trigger("another"), true, 2},
			{c.Org.ID, id, with(trigger("extract tables"), object{"expectation": "should_not_trigger"}), true, 2},
			{other.Org.ID, id, trigger("extract tables"), true, 2}, // another's suite is none
			{c.Org.ID, uuid.NewString(), trigger("extract tables"), true, 2},
			{c.Org.ID, id, trigger("extract tables"), true, 1},
			{c.Org.ID, id, trigger("extract tables"), true, 1},
			{c.Org.ID, id, trigger("extract rows"), false, 1}, // its last case
		} {
			gone, err := remove(row.org, row.suite, row.o)
			if got := c.Get(suitesPath + "/" + id).Field("suite")["case_count"]; err != nil || gone != row.gone || got != row.cases {
				t.Errorf("%v: gone %v, %v cases, want %v: %v", row.o, gone, got, row.cases, err)
			}
		}
		if _, err := remove(c.Org.ID, id, object{"prompt": "a"}); !fault.Is(err, fault.Malformed) {
			t.Errorf("no trigger query: %v", err)
		}
	})
}

func TestAppendRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c, other := w.Org("acme"), w.Org("other")
		source := c.Source()
		of := func(body object) string { return c.Create(with(body, object{"source_id": source}))["id"].(string) }
		for _, row := range []struct {
			name          string
			source, suite string
			o             object
			kind          fault.Kind
		}{
			{"unknown suite", source, uuid.NewString(), trigger("a"), fault.NotFound},
			{"another organisation's suite", source, other.Create(judged(trigger("a")))["id"].(string), trigger("a"), fault.NotFound},
			{"another source's suite", c.Source(), of(judged(trigger("a"))), trigger("b"), fault.Conflict},
			{"a suite of no source", source, c.Create(judged(trigger("a")))["id"].(string), trigger("b"), fault.Conflict},
			{"another verifier", source, of(deterministic(object{"output": "a", "expected": "a"})), trigger("b"), fault.Conflict},
			{"no trigger query", source, of(judged(trigger("a"))), object{"prompt": "a", "rubric": "b"}, fault.Malformed},
			{"the 501st case", source, of(judged(triggers(500)...)), trigger("one more"), fault.Conflict},
		} {
			if _, err := appendCase(c, row.source, row.suite, row.o); fault.Of(err) != row.kind {
				t.Errorf("%s: %v, want the kind %v", row.name, err, row.kind)
			}
		}
		full := of(judged(triggers(500)...))
		if suite, err := appendCase(c, source, full, trigger("query 7")); err != nil || suite.CaseCount != 500 {
			t.Errorf("a case that a full suite has: %d cases, %v", suite.CaseCount, err)
		}
	})
}

// TestAppendRollsBack: Append is part of the caller's transaction.
func TestAppendRollsBack(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		source := c.Source()
		id := c.Create(with(judged(trigger("a")), object{"source_id": source}))["id"].(string)
		broken := errors.New("broken")
		err := db.InTx(t.Context(), func(tx *store.Tx) error {
			if _, _, err := w.Suites.Append(t.Context(), tx, access.Caller{OrgID: c.Org.ID, UserID: c.User.ID}, source, id,
				json.RawMessage(`{"query":"b","expectation":"should_trigger"}`)); err != nil {
				return err
			}
			return broken
		})
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		if n := c.Get(suitesPath + "/" + id).Field("suite")["case_count"]; n != 1.0 {
			t.Errorf("%v cases", n)
		}
	})
}

// TestAppendWhilePatched: concurrent appends, and patches that do not replace
// the cases, lose no case.
func TestAppendWhilePatched(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		source := c.Source()
		id := c.Create(with(judged(trigger("a")), object{"source_id": source}))["id"].(string)
		const each = 10
		var wg sync.WaitGroup
		for worker := range 3 {
			wg.Go(func() {
				for i := range each {
					if _, err := appendCase(c, source, id, trigger(fmt.Sprint(worker, " asks ", i))); err != nil {
						t.Error(err)
					}
				}
			})
			wg.Go(func() {
				for i := range each {
					if a := c.Patch(id, object{"name": fmt.Sprint(worker, i), "supports_no_skill": i%2 == 0}); a.Status != http.StatusOK {
						t.Errorf("%d: %s", a.Status, a.Body)
					}
				}
			})
		}
		wg.Wait()
		suite := c.Get(suitesPath + "/" + id).Field("suite")
		if suite["case_count"] != 3.0*each+1 || suite["version"] != 6.0*each+1 {
			t.Errorf("%v cases in version %v", suite["case_count"], suite["version"])
		}
		// A client that replaces cases can send the version it has seen.
		c.Patch(id, object{"cases_json": triggers(1), "if_version": 1}).WantErrorWith(http.StatusConflict, "has changed")
	})
}

func TestOfSource(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c, other := w.Org("acme"), w.Org("other")
		source := c.Source()
		want := c.Create(with(judged(trigger("a")), object{"source_id": source}))
		c.Create(judged(trigger("a")))
		found, err := w.Suites.OfSource(t.Context(), db, c.Org.ID, source)
		if err != nil || len(found) != 1 || found[0].ID != want["id"] || found[0].Name != "Triggers" ||
			found[0].VerifierKind != suites.LLMJudge {
			t.Errorf("got %v, %v", found, err)
		}
		if found, err := w.Suites.OfSource(t.Context(), db, other.Org.ID, source); err != nil || len(found) != 0 {
			t.Errorf("another organisation sees %v, %v", found, err)
		}
		c.Create(with(judged(trigger("b"), trigger("c")), object{"source_id": source}))
		if cases, err := w.Suites.Cases(t.Context(), db, c.Org.ID, source); err != nil || len(cases) != 3 {
			t.Errorf("cases %s, %v", cases, err)
		}
		if cases, err := w.Suites.Cases(t.Context(), db, other.Org.ID, source); err != nil || len(cases) != 0 {
			t.Errorf("another organisation sees %s, %v", cases, err)
		}
	})
}
