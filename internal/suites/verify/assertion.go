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
	// checkEvery is how many rounds of a loop pass between looks at the clock.
	checkEvery = 10
	// callCost is what a call costs beside what it makes.
	callCost = 25
)

// ErrNoProcess says that an assertion asks about a process that there was not.
var ErrNoProcess = errors.New("exit_code and files are known only of a command")

// environment is what expressions are compiled in, made once.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("output", cel.StringType),
		cel.Variable("json", cel.DynType),
		cel.Variable("exit_code", cel.IntType),
		cel.Variable("duration_ms", cel.IntType),
		cel.Variable("files", cel.MapType(cel.StringType, cel.StringType)),
		cel.CrossTypeNumericComparisons(true),
		cel.EnableMacroCallTracking(),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(100),
	)
})

// Assertion passes the sample that makes an expression true: CEL over output,
// json (the output, read as JSON), exit_code, duration_ms and files (the text
// of each file that a command left, by path).
//
// An expression that does not apply to an output, because it lacks a field or
// is no JSON, fails it: the assertion is not true of it.
func Assertion(expression string) (Check, error) {
	a, err := newAssertion(expression)
	if err != nil {
		return nil, err
	}
	return a.check, nil
}

func newAssertion(expression string) (*assertion, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, fmt.Errorf("assertion: %s", oneLine(issues.Err().Error()))
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("assertion: it gives a value of type %s, not true or false", t)
	}
	a := &assertion{ast: ast}
	a.program, err = env.Program(
		ast, cel.EvalOptions(cel.OptTrackState), cel.InterruptCheckFrequency(checkEvery), cel.CustomDecoratorV2(metered),
	)
	if err != nil {
		return nil, fmt.Errorf("assertion: %s", oneLine(err.Error()))
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
		return vars.problem(err)
	}
	switch got {
	case types.True:
		return pass("the assertion is true")
	case types.False:
		return fail("%s", a.explain(details.State()))
	}
	return Result{}, fmt.Errorf("assertion: it gave %s, not true or false", show(got))
}

// problem tells an output to which the expression does not apply from an
// evaluation that did not come to its end.
func (v *variables) problem(err error) (Result, error) {
	switch {
	case v.budget.err != nil:
		return Result{}, fmt.Errorf("assertion: %w", v.budget.err)
	case v.budget.ctx.Err() != nil: // the library has looked at the clock
		return Result{}, fmt.Errorf("assertion: %w", context.Cause(v.budget.ctx))
	case v.noProcess:
		return Result{}, fmt.Errorf("assertion: %w", ErrNoProcess)
	case v.jsonProblem != "":
		return fail("the output is not JSON: %s", v.jsonProblem)
	}
	return fail("the assertion does not apply to the output: %s", oneLine(err.Error()))
}

// oneLine is a message of the library, which likes to draw.
func oneLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return cut(strings.TrimPrefix(first, "ERROR: "), 4*maxQuote)
}

// variables are what an expression sees. The output is read as JSON only if
// the expression asks for it.
type variables struct {
	sample Sample
	budget *budget

	read        bool
	json        ref.Val
	jsonProblem string // why there is no json
	noProcess   bool   // what only a process has was asked for
}

// ResolveName makes variables a cel.Activation.
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
		return v.parsed()
	case "exit_code":
		if v.sample.ExitCode == nil {
			v.noProcess = true
			return nil, false
		}
		return *v.sample.ExitCode, true
	case "files":
		v.noProcess = v.noProcess || v.sample.Files == nil
		return v.sample.Files, v.sample.Files != nil
	}
	return nil, false
}

// spend pays for what is done with a variable that an expression asks for: its
// calls do not tell how large what they look at is.
func (v *variables) spend(cost int) {
	_ = v.budget.spend(int64(cost)) // the next call ends the evaluation
}

// Parent makes variables a cel.Activation.
func (*variables) Parent() cel.Activation { return nil }

func (v *variables) parsed() (any, bool) {
	if !v.read {
		v.read = true
		value, err := decode(v.sample.Output)
		if err != nil {
			v.jsonProblem = jsonProblem(err)
		}
		v.json = types.DefaultTypeAdapter.NativeToValue(value)
	}
	return v.json, v.jsonProblem == ""
}

// decode reads a text that must be one JSON value.
func decode(text string) (value any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return value, nil
}
