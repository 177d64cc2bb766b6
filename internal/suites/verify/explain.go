package verify

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"github.com/google/cel-go/parser"
)

// explain says which part of the expression is false, and the values in it.
func (a *assertion) explain(state interpreter.EvalState) string {
	e := &explanation{info: a.ast.NativeRep().SourceInfo(), state: state}
	e.visit(a.ast.NativeRep().Expr())
	return strings.Join(e.said, "; ")
}

// maxParts is how many false parts of an expression are told.
const maxParts = 5

type explanation struct {
	info  *ast.SourceInfo
	state interpreter.EvalState
	said  []string
}

// visit tells why an expression is false. Of a conjunction or disjunction that
// is why its false parts are; those that were not looked at are left out.
func (e *explanation) visit(expr ast.Expr) {
	if len(e.said) >= maxParts {
		return
	}
	if expr.Kind() == ast.CallKind && isJunction(expr.AsCall().FunctionName()) {
		for _, arg := range expr.AsCall().Args() {
			if value, seen := e.state.Value(arg.ID()); seen && value == types.False {
				e.visit(arg)
			}
		}
		return
	}
	text := e.source(expr) + " is false"
	if values := e.values(expr); len(values) > 0 {
		text += ", where " + strings.Join(values, " and ")
	}
	e.said = append(e.said, text)
}

func isJunction(function string) bool {
	return function == operators.LogicalAnd || function == operators.LogicalOr
}

// values are those that a call was made with, but not the constants.
func (e *explanation) values(expr ast.Expr) (all []string) {
	if expr.Kind() != ast.CallKind {
		return nil
	}
	call := expr.AsCall()
	operands := call.Args()
	if call.IsMemberFunction() {
		operands = append([]ast.Expr{call.Target()}, operands...)
	}
	for _, operand := range operands {
		value, seen := e.state.Value(operand.ID())
		if seen && operand.Kind() != ast.LiteralKind {
			all = append(all, fmt.Sprintf("%s is %s", e.source(operand), show(value)))
		}
	}
	return all
}

func (e *explanation) source(expr ast.Expr) string {
	text, err := parser.Unparse(expr, e.info)
	if err != nil {
		return "a part of the assertion"
	}
	return cut(strings.ReplaceAll(text, "\n", " "), 2*maxQuote)
}

// show is a value as JSON would show it, shortened.
func show(value ref.Val) string {
	if text, ok := value.Value().(string); ok {
		return quote(text)
	}
	raw, err := json.Marshal(value.Value())
	if err != nil {
		return "a value of type " + value.Type().TypeName()
	}
	return cut(string(raw), maxQuote)
}
