package sessions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// The outcomes that clients report: what came of commands that a session ran. They
// are events of the kind Graded with one of these names.
const (
	TestsPassed    = "tests_passed"    // whether the tests of a command passed
	CommitSurvived = "commit_survived" // whether a commit is still there
)

// IsOutcome reports whether a name is that of an outcome.
func IsOutcome(name string) bool { return slices.Contains([]string{TestsPassed, CommitSurvived}, name) }

// NewOutcome returns the event of an outcome, or what is wrong with a report of it.
func NewOutcome(session, id, name string, at time.Time, passed *bool) (Event, error) {
	switch {
	case name == Interrupted && passed != nil && !*passed:
		return Event{Session: session, Kind: Error, ID: name + "\n" + id, At: at, Name: name, OK: passed}, nil
	case name == Interrupted:
		return Event{}, errors.New("passed must be false: that nothing was interrupted is not reported")
	case !IsOutcome(name):
		return Event{}, fmt.Errorf("outcome must be %s, %s or %s", TestsPassed, CommitSurvived, Interrupted)
	case passed == nil:
		return Event{}, errors.New("passed is required: an outcome that is not known is not reported")
	}
	return Event{Session: session, Kind: Graded, ID: name + "\n" + id, At: at, Name: name, OK: passed}, nil
}

// outcomesOf returns the reported outcomes of sessions as signals, one of each name:
// of tests the last ones count, of commits that one was lost.
func outcomesOf(ctx context.Context, q store.Querier, ids []string, add func(session string, g Signal)) error {
	in, list := q.Dialect().In("$1", ids)
	rows, err := q.Query(ctx, `
		SELECT session_id, name, ok FROM (
			SELECT session_id, name, ok, ROW_NUMBER() OVER (PARTITION BY session_id, name
				ORDER BY CASE WHEN name = $2 AND NOT ok THEN 0 ELSE 1 END, at DESC, id DESC) AS place
			FROM agent_session_events WHERE session_id`+in+` AND kind = 'grade' AND ok IS NOT NULL
		) AS o WHERE place = 1 ORDER BY session_id, name`, list, CommitSurvived)
	return store.Each(rows, err, func(row store.Row) error {
		var id string
		g := Signal{Kind: Graded}
		err := row.Scan(&id, &g.Name, &g.OK)
		add(id, g)
		return err
	})
}
