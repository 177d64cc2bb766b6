package judge

import (
	"cmp"
	"slices"
)

// lexicalThreshold is the score below which no skill is chosen: one word in the name, or two
// in the description, that no other skill has.
const lexicalThreshold = 1.25

// A LexicalRouter chooses the skill of a request by its words, without a model.
type LexicalRouter struct {
	names []string
	index *index
}

// NewLexicalRouter indexes a catalogue. The order of skills has no effect.
func NewLexicalRouter(skills []Skill) *LexicalRouter {
	// Map order or the order of an archive must not decide a tie.
	skills = slices.SortedFunc(slices.Values(skills), func(a, b Skill) int { return cmp.Compare(a.Name, b.Name) })
	r := &LexicalRouter{index: newIndex(len(skills),
		func(i int) (name, text string) { return skills[i].Name, skills[i].Description })}
	for _, k := range skills {
		r.names = append(r.names, k.Name)
	}
	return r
}

// Route returns the skill with the best score, "" if that is below lexicalThreshold, and the
// best two scores. The first name wins a tie.
func (r *LexicalRouter) Route(query string) (skill string, best, second float64) {
	for i, score := range r.index.Scores(query) {
		if score > best {
			skill, best, second = r.names[i], score, best
		} else if score > second {
			second = score
		}
	}
	if best < lexicalThreshold {
		return "", best, second
	}
	return skill, best, second
}
