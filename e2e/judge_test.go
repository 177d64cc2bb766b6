package e2e_test

import (
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/whetstone-dev/whetstone/internal/judge/judgetest"
)

// scriptedJudge starts a model that judges: the first criterion is fulfilled where
// the quotation can be quoted, the others never are.
func scriptedJudge(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) > 2, "judge NAME QUOTATION CRITERION...")
	quotation, criteria := args[1], args[2:]
	model := judgetest.Model{Criteria: criteria, Grade: func(criterion, material string) (string, bool) {
		if criterion == criteria[0] && strings.Contains(material, quotation) {
			return quotation, true
		}
		return "", false
	}}
	server, err := judgetest.Start(model.Respond)
	ts.Check(err)
	ts.Defer(server.Close)
	ts.Setenv(args[0], server.URL(judgetest.OpenAI))
}
