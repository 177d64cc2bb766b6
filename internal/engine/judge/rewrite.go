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

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// A RewriteRequest asks for a better description of a skill.
type RewriteRequest struct {
	// Skill has the best description so far.
	Skill Skill
	// Opening is the beginning of its SKILL.md; it may be empty.
	Opening string
	// Samples are queries that were routed with that description.
	Samples []Sample
	// Tried are all earlier descriptions, that of Skill included. The new one
	// differs from all of them.
	Tried []Attempt
	// Distractors are the skills that it competes with.
	Distractors []Skill
}

// A Sample is a query and what it triggered.
type Sample struct {
	Query  string
	Wanted bool   // it should trigger the skill
	Right  bool   // it triggered the skill if and only if it should
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

// Limits of a prompt.
const (
	maxOpening    = 4096 // bytes
	maxWrong      = 20   // queries
	maxRight      = 10   // queries
	maxSampleText = 200  // characters of a query
)

// Improving identifies the judge that routes and writes descriptions. Searches of different ones
// can't be continued by each other.
func (j *Judge) Improving() Description {
	about := j.about
	about.PromptVersion = RoutePromptVersion + "," + RewritePromptVersion
	if j.model == nil {
		about.PromptVersion = BuiltinModel + "," + BuiltinWriter
	}
	return about
}

// Rewrite writes a better description of a skill. Skill and queries are
// untrusted text, which the prompt delimits as data. An answer with a
// description that the format of skills does not allow is Unusable. The built-in
// judge adds words of missed queries; when it has none left, its answer is
// Unusable, too. Its errors are those of Complete.
func (j *Judge) Rewrite(ctx context.Context, r RewriteRequest) (Rewriting, error) {
	if j.model == nil {
		out, ok, err := j.recorded.rewrite(r, j.newRecord(BuiltinWriter, ""))
		if ok || err != nil {
			return out, err
		}
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
	out.Record, out.Description, out.Reason = done.Record, j.Redact(out.Description), j.Redact(out.Reason)
	return out, nil
}

// text is the user's part of the prompt. Untrusted text in it is delimited by a
// random code, against prompt injection.
func (r RewriteRequest) text(delimiter string) string {
	var wrong, right, tried []string
	for _, s := range r.Samples {
		if s.Right {
			right = append(right, s.line())
		} else {
			wrong = append(wrong, s.line())
		}
	}
	for _, a := range r.Tried {
		description := excerpt(EscapeTokens(a.Description), MaxDescription)
		tried = append(tried, fmt.Sprintf("- %d of %d: %s", a.Right, a.Of, description))
	}
	return fmt.Sprintf(rewriteUser, delimiter,
		excerpt(EscapeTokens(r.Skill.Name), maxSampleText),
		EscapeTokens(text.Truncate(text.Clean(r.Skill.Description), maxDescription)),
		EscapeTokens(text.Truncate(text.Clean(r.Opening), maxOpening)),
		joinLines(wrong, maxWrong), joinLines(right, maxRight), joinLines(tried, len(tried)))
}

// joinLines joins the first limit lines.
func joinLines(all []string, limit int) string {
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
		did = "loaded " + excerpt(EscapeTokens(s.Chosen), maxSampleText)
	}
	return fmt.Sprintf("- %s, %s: %s", should, did, excerpt(EscapeTokens(s.Query), maxSampleText))
}

// read parses and validates an answer.
func (r RewriteRequest) read(answer string) (Rewriting, error) {
	var got struct {
		Reason      *string `json:"reason"`
		Description *string `json:"description"`
	}
	if json.Unmarshal([]byte(answer), &got) != nil || got.Description == nil {
		return Rewriting{}, errForm
	}
	out := Rewriting{Description: text.OneLine(text.Clean(*got.Description))}
	if got.Reason != nil {
		out.Reason = text.Truncate(text.Clean(*got.Reason), maxRaw)
	}
	switch n := utf8.RuneCountInString(out.Description); {
	case n == 0:
		return Rewriting{}, problem("the description is empty")
	case n > MaxDescription:
		return Rewriting{}, problem(fmt.Sprintf("the description has %d characters, and %d are allowed", n, MaxDescription))
	case strings.ContainsAny(out.Description, "<>"):
		return Rewriting{}, problem("the description has angle brackets")
	case strings.ContainsFunc(out.Description, unicode.IsControl):
		return Rewriting{}, problem("the description has control characters")
	case r.wasTried(out.Description):
		return Rewriting{}, problem("the description was tried before")
	}
	return out, nil
}

// wasTried reports whether a description was tried, white space aside. Trying it again would cost a
// round and change nothing.
func (r RewriteRequest) wasTried(description string) bool {
	return description == text.OneLine(text.Clean(r.Skill.Description)) ||
		slices.ContainsFunc(r.Tried, func(a Attempt) bool {
			return text.OneLine(text.Clean(a.Description)) == description
		})
}
