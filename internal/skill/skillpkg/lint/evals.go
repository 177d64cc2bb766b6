package lint

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// minTriggerQueries is the recommended number of queries that should, and that
// should not trigger the skill.
const minTriggerQueries = 8

// An evalCase is a case in one of the two formats in use, with the fields that
// say what to expect.
type evalCase struct {
	Expectations     []any `json:"expectations"`
	Assertions       []any `json:"assertions"`
	ExpectedBehavior []any `json:"expected_behavior"`
	GroundTruth      any   `json:"ground_truth"`
}

type evalFile struct {
	Evals []evalCase `json:"evals"`
	Cases []evalCase `json:"cases"`
}

type triggerQuery struct {
	Query         string `json:"query"`
	ShouldTrigger *bool  `json:"should_trigger"`
}

// checkEvalFile checks the JSON files in evals/ itself; files in its subfolders
// are material for the cases.
func (c *check) checkEvalFile(name string, content []byte) {
	if path.Dir(name) != "evals" || path.Ext(name) != ".json" {
		return
	}
	if !json.Valid(content) {
		var value any
		err := json.Unmarshal(content, &value)
		c.found.add(remark{
			code: "qual.evals.unparseable", path: name,
			message: fmt.Sprintf("The eval file is not valid JSON: %s.", err),
		})
		return
	}
	if strings.HasPrefix(strings.TrimSpace(string(content)), "[") {
		c.checkTriggers(name, content)
		return
	}
	var file evalFile
	if json.Unmarshal(content, &file) != nil {
		return // another kind of file, such as results
	}
	for i, e := range append(file.Evals, file.Cases...) {
		lists := len(e.Expectations) + len(e.Assertions) + len(e.ExpectedBehavior)
		if lists == 0 && (e.GroundTruth == nil || e.GroundTruth == "") {
			c.found.add(remark{
				code: "qual.evals.no_checks", path: name,
				message: fmt.Sprintf("Eval case %d says nothing about what to expect.", i+1),
			})
		}
	}
}

func (c *check) checkTriggers(name string, content []byte) {
	var queries []triggerQuery
	if json.Unmarshal(content, &queries) != nil {
		return
	}
	positive, negative := 0, 0
	for _, q := range queries {
		switch {
		case q.Query == "" || q.ShouldTrigger == nil:
			return // another kind of list
		case *q.ShouldTrigger:
			positive++
		default:
			negative++
		}
	}
	if positive < minTriggerQueries || negative < minTriggerQueries {
		c.found.add(remark{
			code: "qual.trigger_evals.unbalanced", path: name,
			message: fmt.Sprintf("%d queries should trigger the skill and %d should not; %d of each are wanted.",
				positive, negative, minTriggerQueries),
		})
	}
}
