package judge

import (
	"fmt"
	"math"
	"slices"
)

// BuiltinModel is the version of the built-in judge's ranking, stop words and
// threshold. A change of one of them needs a new version: results of different
// versions must not be compared.
const BuiltinModel = "bm25-1"

// The parameters of BM25.
const (
	k1         = 1.2  // term frequency saturation
	b          = 0.75 // length normalisation
	nameWeight = 2    // occurrences that a word in the name counts as
	// threshold is the score below which no skill is chosen: one word in the
	// name, or two in the description, that no other skill has.
	threshold = 1.25
)

// index ranks the skills of a catalogue by BM25. Scores are normalised to a
// word that occurs once, in one skill of average length, so that the threshold
// does not depend on the size of the catalogue.
type index struct {
	termFreq []map[string]float64 // of each skill
	lengths  []float64
	average  float64
	docFreq  map[string]int // number of skills with the word
}

func newIndex(all []Skill) *index {
	x := &index{docFreq: map[string]int{}}
	for _, s := range all {
		termFreq, length := map[string]float64{}, 0.0
		add := func(text string, weight float64) {
			for _, word := range words(text) {
				termFreq[word] += weight
				length += weight
			}
		}
		add(s.Name, nameWeight)
		add(s.Description, 1)
		for word := range termFreq {
			x.docFreq[word]++
		}
		x.termFreq = append(x.termFreq, termFreq)
		x.lengths = append(x.lengths, length)
		x.average += length / float64(len(all))
	}
	return x
}

// scores returns the score of each skill for a query.
func (x *index) scores(query string) []float64 {
	seen := map[string]bool{}
	scores := make([]float64, len(x.termFreq))
	for _, word := range words(query) {
		if seen[word] {
			continue
		}
		seen[word] = true
		for i, termFreq := range x.termFreq {
			if n := termFreq[word]; n > 0 {
				norm := k1 * (1 - b + b*x.lengths[i]/x.average)
				scores[i] += x.idf(x.docFreq[word]) / x.idf(1) * n * (k1 + 1) / (n + norm)
			}
		}
	}
	return scores
}

// idf is the inverse document frequency of a word in n skills.
func (x *index) idf(n int) float64 {
	return math.Log(1 + (float64(len(x.termFreq)-n)+0.5)/(float64(n)+0.5))
}

// routeByBM25 is Route without a model. It is deterministic: seed and trial have
// no effect, and the first name wins a tie.
func (j *Judge) routeByBM25(r RouteRequest, catalogue []Skill) Routing {
	rec := j.newRecord(BuiltinModel, "")
	rec.Seed, rec.Trial = r.Seed, r.Trial
	slices.SortFunc(catalogue, byName)
	best, second, at := 0.0, 0.0, -1
	for i, score := range newIndex(catalogue).scores(r.Query) {
		if score > best {
			best, second, at = score, best, i
		} else if score > second {
			second = score
		}
	}
	if best < threshold {
		return Routing{
			Confidence: 1 - best/(2*threshold),
			Reason:     fmt.Sprintf("builtin BM25: no skill scores %.2f or more; the best has %.2f", threshold, best),
			Record:     rec,
		}
	}
	return Routing{
		Skill:      catalogue[at].Name,
		Confidence: best / (best + second),
		Reason:     fmt.Sprintf("builtin BM25: score %.2f, the next has %.2f", best, second),
		Record:     rec,
	}
}
