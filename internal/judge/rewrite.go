package judge

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A RewriteRequest asks for a better description of a skill.
type RewriteRequest struct {
	// Skill has the best description so far.
	Skill Skill
	// Opening is how its SKILL.md begins; it may be empty.
	Opening string
	// Samples are queries that were routed with that description.
	Samples []Sample
	// Tried are the descriptions that there were, that of Skill among them. An
	// answer differs from all of them.
	Tried []Attempt
	// Distractors are what the skill competes with.
	Distractors []Skill
}

// A Sample is a query and what it triggered.
type Sample struct {
	Query  string
	Wanted bool   // it should trigger the skill
	Right  bool   // it did what it should
	Chosen string // the skill that it triggered, "" for none
}

// An Attempt is a description that was tried, and how many queries it got right.
type Attempt struct {
	Description string
	Right, Of   int
}

// A Rewriting is a new description.
type Rewriting struct {
	Description string // 1 to MaxDescription characters in one line
	Reason      string
	Record      Record
}

// MaxDescription is how many characters the format of skills allows a
// description.
const MaxDescription = 1024

// What a prompt shows.
const (
	maxOpening    = 4096 // bytes
	maxWrong      = 20   // queries
	maxRight      = 10   // queries
	maxSampleText = 200  // characters of a query
)

// Improving says who routes and writes when descriptions are improved.
func (j *Judge) Improving() Description {
	about := j.about
	about.PromptVersion = RoutePromptVersion + "," + RewritePromptVersion
	if j.model == nil {
		about.PromptVersion = BuiltinModel + "," + BuiltinWriter
	}
	return about
}

// Rewrite writes a better description of a skill. Skill and queries are
// strangers' texts: they stand in the prompt as data. A model that refuses, and
// one whose description the format does not allow, has given an unusable
// answer. The built-in judge puts words of missed queries together, and its
// answer is unusable when it has none left. Its error is that of Complete.
func (j *Judge) Rewrite(ctx context.Context, r RewriteRequest) (Rewriting, error) {
	if j.model == nil {
		return j.rewriteByWords(r)
	}
	var out Rewriting
	done, err := j.model.complete(ctx, Prompt{
		Version: RewritePromptVersion,
		System:  rewritePrompt,
		User:    r.text(rand.Text()),
		Schema:  rewriteSchema,
		Check: func(answer string) (err error) {
			out, err = r.read(answer)
			return err
		},
	}, j.newRecord(RewritePromptVersion, rewriteSchema.Version))
	if err != nil {
		return Rewriting{}, err
	}
	out.Record = done.Record
	return out, nil
}

// text is what the model is shown, fenced by a code that no stranger knows.
func (r RewriteRequest) text(code string) string {
	var wrong, right, tried []string
	for _, s := range r.Samples {
		if s.Right {
			right = append(right, s.line())
		} else {
			wrong = append(wrong, s.line())
		}
	}
	for _, a := range r.Tried {
		tried = append(tried, fmt.Sprintf("- %d of %d: %s", a.Right, a.Of, oneLine(defanged(a.Description), MaxDescription)))
	}
	return fmt.Sprintf(rewriteUser, code, oneLine(defanged(r.Skill.Name), maxSampleText),
		defanged(bounded(r.Skill.Description, maxDescription)), defanged(bounded(r.Opening, maxOpening)),
		lines(wrong, maxWrong), lines(right, maxRight), lines(tried, len(tried)))
}

// lines puts some lines together.
func lines(all []string, limit int) string {
	if len(all) == 0 {
		return "(none)"
	}
	return strings.Join(all[:min(len(all), limit)], "\n")
}

func (s Sample) line() string {
	should, did := "should not load the skill", "loaded no skill"
	if s.Wanted {
		should = "should load the skill"
	}
	if s.Chosen != "" {
		did = "loaded " + oneLine(defanged(s.Chosen), maxSampleText)
	}
	return fmt.Sprintf("- %s, %s: %s", should, did, oneLine(defanged(s.Query), maxSampleText))
}

// read returns the description of an answer if it can be used.
func (r RewriteRequest) read(answer string) (Rewriting, error) {
	var got struct {
		Reason      *string `json:"reason"`
		Description *string `json:"description"`
	}
	if json.Unmarshal([]byte(answer), &got) != nil || got.Reason == nil || got.Description == nil {
		return Rewriting{}, problem("the answer does not have the form of the schema")
	}
	out := Rewriting{Description: inOneLine(*got.Description), Reason: bounded(*got.Reason, maxRaw)}
	switch n := utf8.RuneCountInString(out.Description); {
	case n == 0:
		return Rewriting{}, problem("the description is empty")
	case n > MaxDescription:
		return Rewriting{}, problem(fmt.Sprintf("the description has %d characters, and %d are allowed", n, MaxDescription))
	case strings.ContainsAny(out.Description, "<>"):
		return Rewriting{}, problem("the description has angle brackets")
	case strings.ContainsFunc(out.Description, unicode.IsControl):
		return Rewriting{}, problem("the description has control characters")
	case r.knows(out.Description):
		return Rewriting{}, problem("the description was tried before")
	}
	return out, nil
}

// knows reports whether a description was tried.
func (r RewriteRequest) knows(description string) bool {
	return description == inOneLine(r.Skill.Description) ||
		slices.ContainsFunc(r.Tried, func(a Attempt) bool { return inOneLine(a.Description) == description })
}

// inOneLine is a text whose every white space is one space.
func inOneLine(text string) string {
	return strings.Join(strings.Fields(bounded(text, len(text))), " ")
}
