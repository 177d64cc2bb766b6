package sessions

import (
	"errors"
	"fmt"
	"slices"
	"time"
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
