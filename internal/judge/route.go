package judge

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/text"
)

// A Skill is the part of a skill that agents always show to the model.
type Skill struct {
	Name        string
	Description string
}

// A RouteRequest asks which skill a query would trigger.
type RouteRequest struct {
	Query string
	// Skill is the tested one. Without a name it is left out of the catalogue,
	// to find which other skill the query triggers then.
	Skill Skill
	// Distractors are the skills that it competes with; see Distractors.
	Distractors []Skill
	// Seed and Trial determine the order of the catalogue.
	Seed  int64
	Trial int
}

// Routing is the skill that was chosen.
type Routing struct {
	Skill string // "" for none
	// Confidence is the judge's own, from 0 to 1. It is not a probability.
	Confidence float64
	Reason     string
	Record     Record
}

// maxDescription is how many bytes of a description the catalogue shows.
const maxDescription = 2048

// Route decides which skill of a catalogue a query would trigger. A name
// outside the catalogue is Unusable, not a miss. Its errors are those of
// Complete.
func (j *Judge) Route(ctx context.Context, r RouteRequest) (Routing, error) {
	catalogue, err := r.catalogue()
	if err != nil {
		return Routing{}, err
	}
	if j.model == nil {
		return j.routeByBM25(r, catalogue), ctx.Err()
	}
	var out Routing
	rec := j.newRecord(RoutePromptVersion, routeSchema.Version)
	rec.Seed, rec.Trial = r.Seed, r.Trial
	done, err := j.model.complete(ctx, Prompt{
		Version: RoutePromptVersion,
		System:  fmt.Sprintf(routePrompt, catalogueText(catalogue)),
		User:    r.Query,
		Schema:  routeSchema,
		Check: func(answer string) (err error) {
			out, err = readRouting(answer, catalogue)
			return err
		},
	}, rec)
	if err != nil {
		return Routing{}, err
	}
	out.Record = done.Record
	return out, nil
}

// catalogue is the tested skill and its distractors in the order of the trial.
func (r RouteRequest) catalogue() ([]Skill, error) {
	if strings.TrimSpace(r.Query) == "" {
		return nil, rejected("the query is empty")
	}
	var all []Skill
	for _, s := range append([]Skill{r.Skill}, r.Distractors...) {
		if s.Name != "" && indexOf(all, s.Name) < 0 {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil, rejected("there is no skill to choose from")
	}
	// The result must not depend on the order in which skills were given.
	slices.SortFunc(all, byName)
	order := rand.New(rand.NewPCG(uint64(r.Seed), uint64(r.Trial)))
	order.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all, nil
}

func byName(a, b Skill) int { return strings.Compare(a.Name, b.Name) }

func indexOf(all []Skill, name string) int {
	return slices.IndexFunc(all, func(s Skill) bool { return s.Name == name })
}

// catalogueText is the catalogue as agents show it to a model. Names and
// descriptions are untrusted and escaped, so that they cannot end their element.
func catalogueText(all []Skill) string {
	var b strings.Builder
	b.WriteString("<available_skills>\n")
	for _, s := range all {
		fmt.Fprintf(&b, "<skill><name>%s</name><description>%s</description></skill>\n",
			escaped(s.Name), escaped(text.Truncate(text.Clean(s.Description), maxDescription)))
	}
	b.WriteString("</available_skills>")
	return b.String()
}

func escaped(text string) string { return html.EscapeString(escapeSpecialTokens(text)) }

func readRouting(answer string, catalogue []Skill) (Routing, error) {
	var got struct {
		Reason     *string         `json:"reason"`
		Skill      json.RawMessage `json:"skill"`
		Confidence *float64        `json:"confidence"`
	}
	err := json.Unmarshal([]byte(answer), &got)
	if err != nil || got.Reason == nil || got.Skill == nil || got.Confidence == nil {
		return Routing{}, problem("the answer does not have the form of the schema")
	}
	if *got.Confidence < 0 || *got.Confidence > 1 {
		return Routing{}, problem("confidence must be from 0 to 1")
	}
	var name string // stays empty for null
	if json.Unmarshal(got.Skill, &name) != nil {
		return Routing{}, problem("skill must be a name or null")
	}
	if indexOf(catalogue, name) < 0 {
		// Models without structured output often write null in quotes.
		if name != "" && !strings.EqualFold(name, "none") && !strings.EqualFold(name, "null") {
			return Routing{}, problem("the skill is not in the list of available skills")
		}
		name = ""
	}
	reason := text.Truncate(text.Clean(*got.Reason), maxRaw)
	return Routing{Skill: name, Confidence: *got.Confidence, Reason: reason}, nil
}
