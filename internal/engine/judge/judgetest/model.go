package judgetest

import (
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Model understands the prompts of package judge, so that tests and
// benchmarks of its callers need not: give it what a model should think of a
// query, an output or a prompt. Its method Respond is a Responder.
type Model struct {
	// Route returns the name of the skill that it would load, or "".
	Route func(query string, catalogue []string) string
	// Grade returns the quotation and the verdict for one criterion.
	Grade func(criterion, material string) (evidence string, passed bool)
	// Criteria are those that Grade and Fits are asked about; whatever else is
	// asked is a control of the judge, and not fulfilled. Without any, they are
	// asked about all, and must see through the controls themselves.
	Criteria []string
	// Fits says whether a quotation alone speaks for a criterion. If it is nil,
	// that of a known criterion does, and any other does if Grade passes the
	// criterion with the quotation as the material.
	Fits func(criterion, quotation string) bool
	// Answer returns what it says to a prompt; skill is the text that is
	// loaded, or "".
	Answer func(prompt, skill string) string
	// Rewrite returns a new description; shown is all that the prompt shows of
	// the skill and its queries.
	Rewrite func(shown string) string
	// Edit answers a request for edits of a skill; shown is all that the prompt
	// shows of the skill and its cases.
	Edit func(shown string) Reply
	// Label returns a few words on why sessions failed.
	Label func(reason string) string
}

// Respond answers one request, with 400 for what the model has no function for.
func (m Model) Respond(r Request) Reply {
	switch {
	case strings.Contains(r.System, "<available_skills>") && m.Route != nil:
		return m.route(r)
	case strings.Contains(r.System, "strict grader") && m.Grade != nil:
		return m.grade(r)
	case strings.Contains(r.System, "check the quotations") && m.Grade != nil:
		return m.confirm(r)
	case strings.Contains(r.System, "improve the description") && m.Rewrite != nil:
		return JSON(map[string]any{"reason": "as scripted", "description": m.Rewrite(r.User)})
	case strings.HasPrefix(r.System, "You improve the instructions of a skill.") && m.Edit != nil:
		return m.Edit(r.User)
	case strings.Contains(r.System, "You name problems.") && m.Label != nil:
		return m.label(r)
	case m.Answer != nil:
		_, skill, _ := strings.Cut(r.System, "<skill>\n")
		skill, _, _ = strings.Cut(skill, "\n</skill>")
		return Text(m.Answer(r.User, skill))
	default:
		return Fail(http.StatusBadRequest, "the scripted model has no answer to this")
	}
}

var skillNames = regexp.MustCompile(`<name>(.*?)</name>`)

func (m Model) route(r Request) Reply {
	var names []string
	for _, match := range skillNames.FindAllStringSubmatch(r.System, -1) {
		names = append(names, html.UnescapeString(match[1]))
	}
	answer := map[string]any{"reason": "as scripted", "skill": nil, "confidence": 0.9}
	if chosen := m.Route(r.User, names); chosen != "" {
		answer["skill"] = chosen
	}
	return JSON(answer)
}

func (m Model) grade(r Request) Reply {
	material := Material(r.User)
	results := []any{}
	for _, c := range Criteria(r.User) {
		evidence, passed := "", false
		if m.asks(c.Text) {
			evidence, passed = m.Grade(c.Text, material)
		}
		results = append(results, map[string]any{"id": c.ID, "evidence": evidence, "passed": passed})
	}
	return JSON(map[string]any{"results": results, "notes": ""})
}

// asks reports whether the model is asked about a criterion, of which the first
// line is enough.
func (m Model) asks(criterion string) bool {
	return len(m.Criteria) == 0 || slices.ContainsFunc(m.Criteria, func(c string) bool {
		first, _, _ := strings.Cut(strings.TrimSpace(c), "\n")
		return first == criterion
	})
}

func (m Model) confirm(r Request) Reply {
	results := []any{}
	for _, q := range Quotations(r.User) {
		fits := m.asks(q.Criterion)
		switch {
		case fits && m.Fits != nil:
			fits = m.Fits(q.Criterion, q.Text)
		case fits && len(m.Criteria) == 0:
			_, fits = m.Grade(q.Criterion, q.Text)
		}
		results = append(results, map[string]any{"id": q.ID, "fits": fits})
	}
	return JSON(map[string]any{"results": results})
}

func (m Model) label(r Request) Reply {
	labels := []any{}
	for line := range strings.Lines(r.User) {
		var reason struct {
			ID               int
			Failed, Expected string
		}
		if json.Unmarshal([]byte(line), &reason) == nil {
			labels = append(labels, map[string]any{"id": reason.ID, "label": m.Label(reason.Failed + reason.Expected)})
		}
	}
	return JSON(map[string]any{"labels": labels})
}

// A Criterion is one of a grading prompt, with the id that its result must have.
type Criterion struct {
	ID   int
	Text string
}

var criterionLine = regexp.MustCompile(`(?m)^(\d{5}): (.*)$`)

// Criteria returns the criteria of a grading prompt, the controls among them:
// nothing tells them apart.
func Criteria(user string) (all []Criterion) {
	before, _, _ := strings.Cut(user, "\nThe material stands between")
	if at := strings.LastIndex(before, "\nThe criteria, each after its id:\n"); at >= 0 {
		before = before[at:]
	}
	for _, match := range criterionLine.FindAllStringSubmatch(before, -1) {
		id, err := strconv.Atoi(match[1])
		if err == nil {
			all = append(all, Criterion{ID: id, Text: match[2]})
		}
	}
	return all
}

// A Quotation is an item of the second prompt of a grading.
type Quotation struct {
	ID              int
	Criterion, Text string
}

var quotationItem = regexp.MustCompile(`(?m)^(\d{5}): (.*)\n(?:(?s:.*?)\n)??BEGIN ([A-Z2-7]{26})\n(.*)\nEND [A-Z2-7]{26}$`)

// Quotations returns the items of such a prompt.
func Quotations(user string) (all []Quotation) {
	_, items, _ := strings.Cut(user, "\nThe items, each with its id")
	for _, match := range quotationItem.FindAllStringSubmatch(items, -1) {
		if id, err := strconv.Atoi(match[1]); err == nil {
			all = append(all, Quotation{ID: id, Criterion: match[2], Text: match[4]})
		}
	}
	return all
}

var materialMark = regexp.MustCompile(`(?m)^The material stands between the lines BEGIN (\S+) and END \S+\.$`)

// Code returns the random code around the material of a grading prompt.
func Code(user string) string {
	if match := materialMark.FindStringSubmatch(user); match != nil {
		return match[1]
	}
	return ""
}

// Material returns the material of a grading prompt.
func Material(user string) string {
	code := Code(user)
	_, rest, _ := strings.Cut(user, "\nBEGIN "+code+"\n")
	material, _, _ := strings.Cut(rest, "\nEND "+code+"\n")
	return material
}
