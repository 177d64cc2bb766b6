package runs

import (
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// compileCheck compiles the check of a deterministic case.
func compileCheck(c suites.Case) (verify.Check, error) {
	switch c.Kind {
	case suites.ExactMatch:
		by := make([]verify.Normalization, len(c.Normalize))
		for i, n := range c.Normalize {
			by[i] = verify.Normalization(n)
		}
		return verify.Exact(c.Expected, by)
	case suites.JSONSchema:
		return verify.Schema(c.Schema)
	case suites.BooleanAssertion:
		return verify.Assertion(c.Assertion)
	case suites.TriggerQuery, suites.LLMRubric, suites.TaskPackage:
	}
	return nil, fmt.Errorf("a case of kind %s has no check", c.Kind)
}
