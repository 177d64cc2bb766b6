package verify

import (
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// budgetName is the variable that holds the budget of an evaluation. No
// expression can use it: "@" is no part of an identifier.
const budgetName = "@budget"

// metered wraps every call in an expression, so that it is charged to the budget. The
// library's own limits aren't enough: it checks the context in loops only, and counts
// the cost of a regular expression after the match.
func metered(step interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := step.(interpreter.InterpretableCall)
	if !ok {
		return step, nil
	}
	if call.Function() != overloads.Matches || len(call.Args()) != 2 {
		return meteredCall{call}, nil
	}
	m := meteredMatch{InterpretableCall: call}
	if constant, ok := call.Args()[1].(interpreter.InterpretableConst); ok {
		if text, ok := constant.Value().(types.String); ok {
			var err error
			if m.constant, err = compilePattern(string(text)); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// spend charges the budget. Once that is used up it aborts the evaluation by a panic,
// which the library recovers.
func spend(vars interpreter.Activation, cost int64) *budget {
	found, _ := vars.ResolveName(budgetName)
	b, _ := found.(*budget)
	if err := b.spend(cost); err != nil {
		panic(interpreter.EvalCancelledError{Message: err.Error(), Cause: interpreter.CostLimitExceeded})
	}
	return b
}

// A meteredCall is a call that is charged for its result, if that is a text.
type meteredCall struct{ interpreter.InterpretableCall }

// Exec implements interpreter.InterpretableV2.
func (c meteredCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	spend(frame, callCost)
	got := c.InterpretableCall.Exec(frame)
	switch v := got.(type) {
	case types.String:
		spend(frame, int64(len(v)))
	case types.Bytes:
		spend(frame, int64(len(v)))
	}
	return got
}

// Eval implements interpreter.Interpretable.
func (c meteredCall) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// A meteredMatch is the function matches, with our own regular expressions.
type meteredMatch struct {
	interpreter.InterpretableCall
	constant *pattern // compiled in advance; nil if the pattern is computed
}

// Exec implements interpreter.InterpretableV2.
func (m meteredMatch) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	b := spend(frame, callCost)
	var texts [2]string
	for i, arg := range m.Args() {
		got := arg.Exec(frame)
		text, ok := got.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(got)
		}
		texts[i] = string(text)
	}
	pattern := m.constant
	if pattern == nil {
		spend(frame, compileCost*int64(min(len(texts[1]), maxPattern)))
		var err error
		if pattern, err = compilePattern(texts[1]); err != nil {
			return types.WrapErr(err)
		}
		spend(frame, compileCost*pattern.size)
	}
	found, err := pattern.match(b, texts[0])
	if err != nil {
		// It panics: the match was aborted since the budget is used up.
		spend(frame, 0)
	}
	return types.Bool(found)
}

// Eval implements interpreter.Interpretable.
func (m meteredMatch) Eval(vars interpreter.Activation) ref.Val {
	return m.Exec(interpreter.AsFrame(vars))
}
