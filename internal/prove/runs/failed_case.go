package runs

import "time"

// A FailedCase is a case with a query that failed in the newest run of its suite.
type FailedCase struct {
	SuiteID, RunID, CaseID string
	Query                  string
	// ShouldTrigger is false for a query that must not trigger the skill.
	ShouldTrigger bool
	Invocation    string    // how the skill is called, or ""
	Failed, Runs  int       // of the last runs with a verdict on the case
	LastAt        time.Time // when the newest run ended
	// Regression says that the case passed in the run before.
	Regression bool
}
