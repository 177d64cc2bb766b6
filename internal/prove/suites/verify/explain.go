package verify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"github.com/google/cel-go/parser"
)

// maxParts bounds an explanation.
const maxParts = 5

// An explanation collects the false parts of an expression.
type explanation struct {
	info  *ast.SourceInfo
	state interpreter.EvalState
	parts []string
}

// visit explains a false expression. A conjunction or disjunction is explained
// by its false operands; those that were not evaluated are left out.
func (e *explanation) visit(expr ast.Expr) {
	if len(e.parts) >= maxParts {
		return
	}
	junctions := []string{operators.LogicalAnd, operators.LogicalOr}
	if expr.Kind() == ast.CallKind && slices.Contains(junctions, expr.AsCall().FunctionName()) {
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
	e.parts = append(e.parts, text)
}

// values returns the operands of a call with their values, without constants.
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
			all = append(all, fmt.Sprintf("%s is %s", e.source(operand), format(value)))
		}
	}
	return all
}

// source returns the text of a part of the expression, on one line.
func (e *explanation) source(expr ast.Expr) string {
	text, err := parser.Unparse(expr, e.info)
	if err != nil {
		return "a part of the assertion"
	}
	return truncate(strings.ReplaceAll(text, "\n", " "), 2*maxQuote)
}

// format returns a value as JSON, truncated.
func format(value ref.Val) string {
	if text, ok := value.Value().(string); ok {
		return quote(text)
	}
	raw, err := json.Marshal(value.Value())
	if err != nil {
		return "a value of type " + value.Type().TypeName()
	}
	return truncate(string(raw), maxQuote)
}
