// Package imported reads the results of runs that another tool made elsewhere:
// aggregate-result.json of `claude plugin eval`. It writes the table
// eval_run_imports of package runs.
package imported

import "github.com/whetstone-dev/whetstone/client/api"

// An Origin says which tool made a run and what the tool reported about it. Numbers
// that it didn't report are nil.
type Origin api.EvalOrigin

// USD returns the cost in the form of costs that may be unknown.
func (o Origin) USD() *float64 { return &o.CostUSD }

// A Plugin is one of the plugins under test.
type Plugin = api.EvalPlugin
