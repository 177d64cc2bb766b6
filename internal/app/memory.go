package app

import "github.com/whetstone-dev/whetstone/internal/httpapi"

// budgets are the memory that requests may take together, by what they take it
// for. They are apart, so that a request that has read its body waits for none
// of those that still read theirs.
type budgets struct {
	work *httpapi.Budget // of operations that unpack or compare archives
}

func newBudgets() budgets {
	return budgets{work: httpapi.NewBudget(256<<20, 0)}
}
