package judge

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
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
	// Confidence is the judge's own, from 0 to 1, and 0 if it gave none. It is not
	// a probability, and decides nothing.
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
	// The catalogue as agents show it to a model, in the trial's order: models prefer early
	// entries, and trials average that out. Names and descriptions are untrusted, so they are
	// escaped and cannot end their element.
	var b strings.Builder
	b.WriteString("<available_skills>\n")
	for _, s := range catalogue {
		fmt.Fprintf(&b, "<skill><name>%s</name><description>%s</description></skill>\n",
			escaped(s.Name), escaped(text.Truncate(text.Clean(s.Description), maxDescription)))
	}
	b.WriteString("</available_skills>")
	done, err := j.model.complete(ctx, Prompt{
		Version: RoutePromptVersion,
		System:  fmt.Sprintf(routePrompt, b.String()),
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
	out.Record, out.Reason = done.Record, j.Redact(out.Reason)
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

func escaped(text string) string { return html.EscapeString(EscapeTokens(text)) }

// readRouting accepts only names of the catalogue: a hallucinated name says nothing about the
// tested skill.
func readRouting(answer string, catalogue []Skill) (Routing, error) {
	var got struct {
		Reason     any             `json:"reason"`
		Skill      json.RawMessage `json:"skill"`
		Confidence json.RawMessage `json:"confidence"`
	}
	var name string // stays empty for null
	if json.Unmarshal([]byte(answer), &got) != nil || got.Skill == nil || json.Unmarshal(got.Skill, &name) != nil {
		return Routing{}, errForm
	}
	skill, ok := matchSkill(name, catalogue)
	if !ok {
		return Routing{}, problem("the skill is not in the list of available skills")
	}
	reason, _ := got.Reason.(string)
	reason = text.Truncate(text.Clean(reason), maxRaw)
	return Routing{Skill: skill, Confidence: readConfidence(got.Confidence), Reason: reason}, nil
}

// noSkillNames are what models write for null, in lower case. It is read only.
var noSkillNames = []string{"", "none", "null", "no skill", "n/a"}

// matchSkill finds the skill that a model named, "" for none. Models without
// strict schemas change the case, put the name in backticks, or write it as the
// skill of a plugin, e.g. "acme:pdf-forms". A name that fits several is not found.
func matchSkill(name string, catalogue []Skill) (skill string, ok bool) {
	if indexOf(catalogue, name) >= 0 {
		return name, true
	}
	// Qualified names come last: an exact match must win over "acme:pdf".
	name = strings.ToLower(strings.Trim(name, " \t\n`'\"*"))
	if skill, ok := onlySkill(catalogue, func(s string) bool { return s == name }); ok {
		return skill, true
	}
	if slices.Contains(noSkillNames, name) {
		return "", true
	}
	return onlySkill(catalogue, func(s string) bool {
		return strings.HasSuffix(name, ":"+s) || strings.HasSuffix(name, "/"+s) ||
			strings.HasSuffix(s, ":"+name) || strings.HasSuffix(s, "/"+name)
	})
}

// onlySkill returns the skill whose name in lower case matches, if only one does.
func onlySkill(catalogue []Skill, matches func(name string) bool) (skill string, ok bool) {
	for _, s := range catalogue {
		if !matches(strings.ToLower(s.Name)) {
			continue
		}
		if ok {
			return "", false
		}
		skill, ok = s.Name, true
	}
	return skill, ok
}

// readConfidence reads 0.9, "0.9" and 90. Anything else is no confidence.
func readConfidence(raw json.RawMessage) float64 {
	value, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(unquoted(raw)), "%"), 64)
	// Some models answer in per cent.
	if value > 1 {
		value /= 100
	}
	if err != nil || !(value >= 0 && value <= 1) {
		return 0
	}
	return value
}

// The number of skills that a tested one competes with.
const (
	minDistractors = 5
	maxDistractors = 15
)

// Distractors chooses the skills that a tested one competes with: up to 15 of
// the others, and neutral ones where there are fewer than 5. The same seed gives
// the same choice whatever the order of the list. Skills without a description
// are left out.
func Distractors(others []Skill, tested string, seed int64) []Skill {
	var chosen []Skill
	seen := map[string]bool{"": true, tested: true}
	add := func(s Skill) {
		if s.Description != "" && !seen[s.Name] {
			seen[s.Name] = true
			chosen = append(chosen, s)
		}
	}
	// Sorting and a seeded shuffle make the choice a function of the set: all trials of a run must
	// compete with the same skills.
	for _, s := range slices.SortedFunc(slices.Values(others), byName) {
		add(s)
	}
	order := rand.New(rand.NewPCG(uint64(seed), 0))
	order.Shuffle(len(chosen), func(i, k int) { chosen[i], chosen[k] = chosen[k], chosen[i] })
	chosen = chosen[:min(len(chosen), maxDistractors)]
	for _, s := range neutralSkills {
		if len(chosen) >= minDistractors {
			break
		}
		add(s)
	}
	return chosen
}

// neutralSkills are unlike the skills of organisations, and unlike each other.
// It is read only.
var neutralSkills = []Skill{
	{"recipe-scaling", "Scales cooking recipes to another number of servings and converts kitchen measures. Use when someone cooks for more or fewer people than a recipe is for."},
	{"trip-planning", "Plans journeys by train, plane and car with stops, times and hotels. Use when someone wants an itinerary for a holiday or a business trip."},
	{"plant-care", "Tells how to water, repot and light house and garden plants and how to treat their pests. Use when someone asks about an ailing plant."},
	{"music-practice", "Makes practice plans for instruments with scales, pieces and metronome marks. Use when someone learns an instrument or prepares a concert."},
	{"board-game-rules", "Explains the rules of board and card games and settles disputes at the table. Use when players ask whether a move is allowed."},
	{"workout-plan", "Makes weekly training plans for running, swimming and strength with warm-up and rest days. Use when someone trains for a race or wants to get fit."},
	{"vocabulary-cards", "Makes flash cards with words, genders and example sentences of a foreign language. Use when someone learns vocabulary."},
}
