package grades

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// The limits of a draft. More would make a grading expensive, and few skills
// promise so much.
const (
	maxExpectations = 10
	minWords        = 3
	maxBytes        = 300
)

// evalPaths are where a skill has its evals, the usual one first.
var evalPaths = []string{"evals/evals.json", "evals.json"}

// draftOfEvals returns the expectations of an evals.json in order, without duplicates. It
// returns none for a file in another format.
func draftOfEvals(raw []byte) []string {
	var file struct {
		Evals []struct {
			Expectations []any `json:"expectations"`
			Assertions   []any `json:"assertions"` // another spelling
		} `json:"evals"`
	}
	if json.Unmarshal(raw, &file) != nil {
		return nil
	}
	var d draft
	for _, eval := range file.Evals {
		for _, e := range append(eval.Expectations, eval.Assertions...) {
			if s, ok := e.(string); ok {
				d.add(s)
			}
		}
	}
	return d.all
}

var (
	// promise is a line of a list that says what the skill does in any case.
	promise  = regexp.MustCompile(`(?i)\b(?:must|always|never|ensure|make sure|do not|don't|should)\b`)
	listItem = regexp.MustCompile(`^\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?`)
	// markup is what Markdown puts around words.
	markup = regexp.MustCompile("\\*\\*|__|`|^#+\\s+")
	// trigger begins a sentence of a description that says when to use the skill,
	// which no session can fulfil.
	trigger = regexp.MustCompile(`(?i)^(?:do not |don't )?(?:use|trigger|invoke|activate|apply)\b|\buse (?:this|it|when|for)\b|\bwhen(?:ever)? the user\b`)
	// sentence ends at a full stop before a capital letter, or at the end.
	sentence = regexp.MustCompile(`[.!?]\s+`)
)

// draftOfSkill returns what a SKILL.md promises: the items of its lists that say what
// must always or never be, and the sentences of its description.
func draftOfSkill(raw []byte) []string {
	skill, err := skillpkg.ParseSkill(raw)
	if err != nil {
		return nil
	}
	var d draft
	fenced := false
	for line := range strings.Lines(skill.Body) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		mark := listItem.FindString(line)
		if !fenced && mark != "" && promise.MatchString(line) {
			d.add(line[len(mark):])
		}
	}
	for _, s := range sentence.Split(text.OneLine(skill.Description), -1) {
		if !trigger.MatchString(s) {
			d.add("The session did what the skill is for: " + s)
		}
	}
	return d.all
}

type draft struct{ all []string }

// add adds an expectation, unless it is too short to mean anything, or there.
func (d *draft) add(expectation string) {
	s := text.PlainLine(markup.ReplaceAllString(expectation, ""))
	s = strings.TrimRight(text.EllipsisBytes(s, maxBytes), " .;,")
	if len(d.all) == maxExpectations || len(strings.Fields(s)) < minWords {
		return
	}
	for _, known := range d.all {
		if strings.EqualFold(known, s) {
			return
		}
	}
	d.all = append(d.all, s)
}
