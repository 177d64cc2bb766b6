package judge

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// A PreferRequest asks which of two materials serves a task better.
type PreferRequest struct {
	Task string
	A, B string // untrusted, e.g. the outputs of agents
	Seed int64  // kept in the record
	N    int
}

// A Choice is the answer to a PreferRequest.
type Choice string

// The choices.
const (
	ChoiceA   Choice = "A"
	ChoiceB   Choice = "B"
	ChoiceTie Choice = "tie"
)

// A Preference is a choice with a quotation of each material.
type Preference struct {
	Choice         Choice
	QuoteA, QuoteB string
	Reason         string
	Record         Record
}

// Prefer asks which material serves the task better. Callers ask twice, with A and B swapped:
// a judge that prefers a position is found out by that. Instructions inside the materials are
// data: each material ends at a random delimiter, and a choice without a quotation that is in
// the preferred material is a tie. Its errors are those of Complete.
func (j *Judge) Prefer(ctx context.Context, r PreferRequest) (Preference, error) {
	if j.model == nil {
		return Preference{}, errRouteOnly("compare outputs")
	}
	r.A, r.B = strings.ToValidUTF8(r.A, "\uFFFD"), strings.ToValidUTF8(r.B, "\uFFFD")
	var out Preference
	omitted := 0
	draw := func() Prompt {
		var p Prompt
		p, omitted = r.prompt(j.maxInput)
		p.Check = func(answer string) (err error) {
			out, err = r.read(answer)
			return err
		}
		return p
	}
	p := draw()
	p.Redraw = draw
	rec := j.newRecord(PreferPromptVersion, preferSchema.Version)
	rec.Seed, rec.Trial, rec.OmittedBytes = r.Seed, r.N, omitted
	done, err := j.model.complete(ctx, p, rec)
	if err != nil {
		return Preference{}, err
	}
	out.Record = done.Record
	out.QuoteA, out.QuoteB, out.Reason = j.Redact(out.QuoteA), j.Redact(out.QuoteB), j.Redact(out.Reason)
	return out, nil
}

// prompt returns a prompt of at most maxTokens, and how many bytes of the materials it omits.
// Both get the same room, and the task at most a quarter.
func (r PreferRequest) prompt(maxTokens int) (p Prompt, omitted int) {
	code := rand.Text()
	room := maxTokens*bytesPerToken - len(preferPrompt) - len(preferUser) - 8*len(code)
	task, cut := truncateMiddle(EscapeTokens(GradeRequest{Task: r.Task}.task()), max(0, room/4))
	each := max(0, (room-len(task))/2)
	a, cutA := truncateMiddle(EscapeTokens(r.A), each)
	b, cutB := truncateMiddle(EscapeTokens(r.B), each)
	return Prompt{
		Version: PreferPromptVersion, System: preferPrompt, Schema: preferSchema,
		User: fmt.Sprintf(preferUser, task, code, a, b),
	}, cut + cutA + cutB
}

// read parses an answer.
func (r PreferRequest) read(answer string) (Preference, error) {
	var got struct {
		Reason string `json:"reason"`
		QuoteA string `json:"quote_a"`
		QuoteB string `json:"quote_b"`
		Better string `json:"better"`
	}
	if json.Unmarshal([]byte(answer), &got) != nil || got.Better == "" {
		return Preference{}, errForm
	}
	p := Preference{
		QuoteA: text.Truncate(text.Clean(got.QuoteA), maxQuotation), QuoteB: text.Truncate(text.Clean(got.QuoteB), maxQuotation),
		Reason: text.Truncate(text.Clean(got.Reason), maxRaw),
	}
	switch strings.ToLower(strings.TrimSpace(got.Better)) {
	case "a":
		p.Choice = ChoiceA
	case "b":
		p.Choice = ChoiceB
	case "tie":
		p.Choice = ChoiceTie
	default:
		return Preference{}, problem("better is neither A nor B nor tie")
	}
	preferred, quotation := r.A, p.QuoteA
	if p.Choice == ChoiceB {
		preferred, quotation = r.B, p.QuoteB
	}
	// A choice that rests on words which aren't there counts as none.
	if p.Choice != ChoiceTie && !newQuotable(preferred).contains(quotation) {
		p.Choice = ChoiceTie
	}
	return p, nil
}
