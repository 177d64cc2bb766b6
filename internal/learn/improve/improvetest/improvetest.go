// Package improvetest has a skill with two faults in its body, cases that find them,
// and a model that plays all parts of an improve run: it answers prompts as the
// skill says, judges the answers, and writes edits, well or badly.
package improvetest

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

// The faults of the skill.
const (
	WrongCurrency = "Write all amounts in dollars."
	NoTax         = "Never mention the tax."
)

// SkillMD is the skill with both faults.
const SkillMD = `---
name: invoices
description: Writes invoices. Use when somebody asks for a bill or an invoice.
---
# Invoices

Address the customer by name.

` + WrongCurrency + `

` + NoTax + `

End with thanks.
`

// What the cases expect: the first two fail because of a fault each.
const (
	wantsEuros  = "The amount is in euros"
	wantsTax    = "The tax is named"
	wantsThanks = "The customer is thanked"
)

// Cases returns cases of a suite. Of five, two fail by each fault, and one passes.
// The prompt and the rubric of each have its Marker.
func Cases(n int) (cases []any) {
	for i := range n {
		cases = append(cases, map[string]any{
			"id": CaseID(i), "case_kind": "llm_rubric", "rubric": rubric(i),
			"prompt": fmt.Sprintf("Bill customer %d for %d chairs. The reference is %s.", i, i+2, Marker(i)),
		})
	}
	return cases
}

// CaseID is the id of a case.
func CaseID(i int) string { return fmt.Sprintf("case-%03d", i) }

// Marker is in all texts of a case, and nowhere else.
func Marker(i int) string { return fmt.Sprintf("marker-%03d", i) }

func rubric(i int) string {
	wants := wantsThanks
	switch i % 5 {
	case 0, 1:
		wants = wantsEuros
	case 2, 3:
		wants = wantsTax
	}
	return fmt.Sprintf("%s, for %s.", wants, Marker(i))
}

var marker = regexp.MustCompile(`marker-\d{3}`)

// Markers returns the markers in a text.
func Markers(text string) []string { return marker.FindAllString(text, -1) }

// A Part is what the model is asked for.
type Part string

// The parts.
const (
	Answer Part = "answer"
	Judge  Part = "judge"
	Write  Part = "write"
)

// A Writer answers a request for edits. Shown is all that the prompt shows.
type Writer func(shown string) judgetest.Reply

// A Model is a model server for an improve run of the skill.
type Model struct {
	*judgetest.Server

	mu     sync.Mutex
	write  Writer
	before func(Part)
	count  map[Part]int
}

// NewModel starts a model that knows up to 1,000 Cases, and mends the skill.
func NewModel(tb testing.TB) *Model {
	tb.Helper()
	m := &Model{write: Mend, count: map[Part]int{}}
	script := judgetest.Model{Answer: answer, Grade: grade, Edit: func(shown string) judgetest.Reply { return m.writer()(shown) }}
	for i := range 1_000 {
		script.Criteria = append(script.Criteria, rubric(i))
	}
	m.Server = judgetest.New(tb, func(r judgetest.Request) judgetest.Reply {
		m.begin(partOf(r))
		return script.Respond(r)
	})
	return m
}

// SetWriter replaces the part that writes edits.
func (m *Model) SetWriter(w Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.write = w
}

// Before calls a function before each answer; nil calls none. While it does not
// return, the model does not answer.
func (m *Model) Before(f func(Part)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = f
}

// Count is how many requests asked for a part.
func (m *Model) Count(p Part) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count[p]
}

// Written returns all that the writer was sent.
func (m *Model) Written() (sent []string) {
	for _, r := range m.Requests() {
		if partOf(r) == Write {
			sent = append(sent, string(r.Body))
		}
	}
	return sent
}

func (m *Model) writer() Writer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.write
}

func (m *Model) begin(p Part) {
	m.mu.Lock()
	m.count[p]++
	before := m.before
	m.mu.Unlock()
	if before != nil {
		before(p)
	}
}

func partOf(r judgetest.Request) Part {
	switch {
	case strings.HasPrefix(r.System, "You improve the instructions"):
		return Write
	case r.Schema != nil || strings.Contains(r.System, "strict grader") || strings.Contains(r.System, "check the quotations"):
		return Judge
	}
	return Answer
}

// answer does what the skill says.
func answer(_, skill string) string {
	if skill == "" {
		return "I cannot write invoices."
	}
	said := "Dear customer, you owe 20 euros."
	if strings.Contains(skill, WrongCurrency) {
		said = "Dear customer, you owe 20 dollars."
	}
	if !strings.Contains(skill, NoTax) {
		said += " The tax of 19 percent is included."
	}
	return said + " Thank you for your order."
}

// grade quotes the sentence that a rubric asks for.
func grade(criterion, material string) (evidence string, passed bool) {
	quotation := "Thank you"
	switch {
	case strings.HasPrefix(criterion, wantsEuros):
		quotation = "20 euros"
	case strings.HasPrefix(criterion, wantsTax):
		quotation = "The tax of 19 percent"
	}
	if !strings.Contains(material, quotation) {
		return "", false
	}
	return quotation, true
}
