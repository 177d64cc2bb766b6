package runstest

import "github.com/whetstone-dev/whetstone/internal/app/apptest"

// Judged is the body of a suite of trigger queries.
func Judged(cases ...apptest.Object) apptest.Object {
	return apptest.Object{"name": "Triggers", "source_kind": "manual", "verifier_kind": "llm_judge", "cases_json": cases}
}

// Deterministic is the body of a suite that programs verify.
func Deterministic(cases ...apptest.Object) apptest.Object {
	return apptest.Object{"name": "Checks", "source_kind": "manual", "verifier_kind": "deterministic", "cases_json": cases}
}

// Trigger is a query that must trigger the skill.
func Trigger(query string) apptest.Object {
	return apptest.Object{"case_kind": "trigger_query", "query": query, "expectation": "should_trigger"}
}

// Avoid is a query that must not trigger the skill.
func Avoid(query string) apptest.Object {
	return apptest.With(Trigger(query), apptest.Object{"expectation": "should_not_trigger"})
}

// Exact is a case that compares an output.
func Exact(output, expected string) apptest.Object {
	return apptest.Object{"case_kind": "exact_match", "output": output, "expected": expected}
}
