package e2e_test

import (
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

// scriptedJudge starts a model that judges, see quoting.
func scriptedJudge(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) > 2, "judge NAME QUOTATION CRITERION...")
	server, err := judgetest.Start(quoting(args[1], args[2:]...).Respond)
	ts.Check(err)
	ts.Defer(server.Close)
	ts.Setenv(args[0], server.URL(judgetest.OpenAI))
}

// quoting is a judge for whom the first criterion is fulfilled where the quotation can
// be quoted, and the others never are. The label of a failure has the last word of
// its reason.
func quoting(quotation string, criteria ...string) judgetest.Model {
	return judgetest.Model{
		Criteria: criteria,
		Grade: func(criterion, material string) (string, bool) {
			if criterion == criteria[0] && strings.Contains(material, quotation) {
				return quotation, true
			}
			return "", false
		},
		Label: func(reason string) string {
			words := strings.Fields(strings.Trim(reason, "."))
			return "Missing: " + words[len(words)-1]
		},
	}
}
