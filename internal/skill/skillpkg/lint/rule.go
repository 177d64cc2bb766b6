package lint

import (
	"slices"
	"sync"
)

// A Rule is one kind of finding.
type Rule struct {
	Code     string
	Category Category
	// Severity is the default: a finding may be less severe where something is
	// only mentioned, and two rules about hidden text can be more severe.
	Severity Severity
	// Title says what is wrong, Help what to do about it.
	Title, Help string
}

// Rules returns the rules in the order of the documentation.
func Rules() []Rule { return slices.Concat(specRules(), qualityRules(), securityRules()) }

func ruleOf(code string) (Rule, bool) {
	r, ok := rulesByCode()[code]
	return r, ok
}

var rulesByCode = sync.OnceValue(func() map[string]Rule {
	rules := map[string]Rule{}
	for _, r := range Rules() {
		rules[r.Code] = r
	}
	return rules
})
