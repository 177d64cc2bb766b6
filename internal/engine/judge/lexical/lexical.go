// Package lexical chooses the skill of a request by its words, without a model.
package lexical

import (
	"cmp"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/engine/judge/bm25"
)

// Threshold is the score below which no skill is chosen: one word in the name, or two
// in the description, that no other skill has.
const Threshold = 1.25

// A Skill is what a request is compared with.
type Skill struct{ Name, Description string }

// A Router chooses among the skills of a catalogue.
type Router struct {
	names []string
	index *bm25.Index
}

// New indexes a catalogue. The order of skills has no effect.
func New(skills []Skill) *Router {
	skills = slices.SortedFunc(slices.Values(skills), func(a, b Skill) int { return cmp.Compare(a.Name, b.Name) })
	r := &Router{index: bm25.New(len(skills), func(i int) (name, text string) { return skills[i].Name, skills[i].Description })}
	for _, k := range skills {
		r.names = append(r.names, k.Name)
	}
	return r
}

// Route returns the skill with the best score, "" if that is below Threshold, and the
// best two scores. The first name wins a tie.
func (r *Router) Route(query string) (skill string, best, second float64) {
	for i, score := range r.index.Scores(query) {
		if score > best {
			skill, best, second = r.names[i], score, best
		} else if score > second {
			second = score
		}
	}
	if best < Threshold {
		return "", best, second
	}
	return skill, best, second
}
