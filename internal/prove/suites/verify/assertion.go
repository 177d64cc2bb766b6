package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

const (
	// maxExpression is how many characters an assertion may have.
	maxExpression = 10_000
	// checkEvery is how many iterations of a loop pass between checks of the
	// context.
	checkEvery = 10
	// callCost is what a call costs beside the size of its result.
	callCost = 25
)

// ErrNoProcess means that an assertion uses exit_code or files, but neither a
// command nor an agent was run.
var ErrNoProcess = errors.New("exit_code and files are known only of a command or an agent")

// environment declares the variables of expressions. It is built once: it is the same
// for all of them.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("output", cel.StringType),
		cel.Variable("json", cel.DynType),
		cel.Variable("exit_code", cel.IntType),
		cel.Variable("duration_ms", cel.IntType),
		cel.Variable("files", cel.MapType(cel.StringType, cel.StringType)),
		// They are null without an agent.
		cel.Variable("activated", cel.DynType),
		cel.Variable("tools", cel.DynType),
		cel.Variable("turns", cel.DynType),
		cel.Variable("tokens", cel.DynType),
		cel.Variable("cost_usd", cel.DynType),
		cel.CrossTypeNumericComparisons(true),
		cel.EnableMacroCallTracking(),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(100),
	)
})

// Assertion passes the sample for which a CEL expression is true, e.g.
// `exit_code == 0 && json.total > 3`. Its variables are output, json (the parsed
// output), exit_code, duration_ms and files (the text of each file that a
// command or an agent left, by path), and of an agent activated, tools (a list of
// names), turns, tokens and cost_usd.
//
// An expression that cannot be evaluated for an output, because a field is
// missing or the output is not JSON, fails it: it is not true.
func Assertion(expression string) (Check, error) {
	a, err := newAssertion(expression)
	if err != nil {
		return nil, err
	}
	return a.check, nil
}

// newAssertion compiles an expression, and checks that it can be true or false.
func newAssertion(expression string) (*assertion, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, fmt.Errorf("assertion: %s", firstLine(issues.Err().Error()))
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("assertion: it gives a value of type %s, not true or false", t)
	}
	a := &assertion{ast: ast}
	a.program, err = env.Program(
		ast, cel.EvalOptions(cel.OptTrackState), cel.InterruptCheckFrequency(checkEvery), cel.CustomDecoratorV2(metered),
	)
	if err != nil {
		return nil, fmt.Errorf("assertion: %s", firstLine(err.Error()))
	}
	return a, nil
}

type assertion struct {
	ast     *cel.Ast
	program cel.Program
}

func (a *assertion) check(ctx context.Context, s Sample) (Result, error) {
	b, stop := newBudget(ctx)
	defer stop()
	return a.evaluate(b, s)
}

func (a *assertion) evaluate(b *budget, s Sample) (Result, error) {
	vars := &variables{sample: s, budget: b}
	got, details, err := a.program.ContextEval(b.ctx, vars)
	if err != nil {
		return vars.resultOf(err)
	}
	switch got {
	case types.True:
		return pass("the assertion is true")
	case types.False:
		// It names the part of a false expression that is false, and the values in it, e.g. "exit_code == 0 is
		// false, where exit_code is 3".
		e := &explanation{info: a.ast.NativeRep().SourceInfo(), state: details.State()}
		e.visit(a.ast.NativeRep().Expr())
		return fail("%s", strings.Join(e.parts, "; "))
	}
	return Result{}, fmt.Errorf("assertion: it gave %s, not true or false", format(got))
}

// resultOf distinguishes an output for which the expression can't be evaluated, which
// is a fail, from an evaluation that was aborted, which has no verdict.
func (v *variables) resultOf(err error) (Result, error) {
	switch {
	case v.budget.err != nil:
		return Result{}, fmt.Errorf("assertion: %w", v.budget.err)
	case v.budget.ctx.Err() != nil: // the library has seen that the context is done
		return Result{}, fmt.Errorf("assertion: %w", context.Cause(v.budget.ctx))
	case v.noProcess:
		return Result{}, fmt.Errorf("assertion: %w", ErrNoProcess)
	case v.jsonProblem != "":
		return fail("the output is not JSON: %s", v.jsonProblem)
	}
	return fail("the assertion does not apply to the output: %s", firstLine(err.Error()))
}

// firstLine shortens an error of the library, which shows the expression with a caret
// on further lines.
func firstLine(message string) string {
	first, _, _ := strings.Cut(message, "\n")
	return truncate(strings.TrimPrefix(first, "ERROR: "), 4*maxQuote)
}

// variables are the variables of an expression. The output is parsed as JSON only if
// the expression uses it.
type variables struct {
	sample Sample
	budget *budget

	parsed      bool
	json        ref.Val
	jsonProblem string // why there is no json
	noProcess   bool   // the expression uses what only a command has
}

// ResolveName implements cel.Activation.
func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case budgetName:
		return v.budget, true
	case "output":
		v.spend(len(v.sample.Output) / 16)
		return v.sample.Output, true
	case "duration_ms":
		return v.sample.Duration.Milliseconds(), true
	case "json":
		v.spend(len(v.sample.Output) / 4)
		if !v.parsed {
			v.parsed = true
			value, err := parseJSON(v.sample.Output)
			if err != nil {
				v.jsonProblem = jsonProblem(err)
			}
			v.json = types.DefaultTypeAdapter.NativeToValue(value)
		}
		return v.json, v.jsonProblem == ""
	case "exit_code":
		if v.sample.ExitCode == nil {
			v.noProcess = true
			return nil, false
		}
		return *v.sample.ExitCode, true
	case "files":
		v.noProcess = v.noProcess || v.sample.Files == nil
		return v.sample.Files, v.sample.Files != nil
	case "activated", "tools", "turns", "tokens", "cost_usd":
		return v.sample.Agent.variable(name), true
	}
	return nil, false
}

// variable returns the value of an agent's variable; null if it isn't known.
func (a *Agent) variable(name string) any {
	switch {
	case a == nil:
	case name == "activated" && a.Activated != nil:
		return *a.Activated
	case name == "tools":
		return a.Tools
	case name == "turns":
		return a.Turns
	case name == "tokens":
		return a.Tokens
	case name == "cost_usd" && a.CostUSD != nil:
		return *a.CostUSD
	}
	return types.NullValue
}

// spend charges the budget for a variable, by its size: a call is charged for its
// result only, not for its operands.
func (v *variables) spend(cost int) {
	_ = v.budget.spend(int64(cost)) // the next call aborts the evaluation
}

// Parent implements cel.Activation.
func (*variables) Parent() cel.Activation { return nil }

// parseJSON parses a text that must be one JSON value.
func parseJSON(text string) (value any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return value, nil
}
