package judge

import (
	"fmt"
	"math"
	"slices"
)

// BuiltinModel names the ranking of the built-in judge, its words and its
// threshold; whoever changes one of them raises it.
const BuiltinModel = "bm25-1"

// The parameters of the ranking.
const (
	saturation   = 1.2  // k1 of BM25
	lengthWeight = 0.75 // b of BM25
	nameWeight   = 2    // how often a word of the name counts
	// threshold is the score below which no skill is chosen: one word in the
	// name, or two in the description, that no other skill has.
	threshold = 1.25
)

// index ranks the skills of a catalogue by BM25. Its scores are in units of
// a word that occurs once, in one skill only, of average length, so that they
// do not depend on the size of the catalogue.
type index struct {
	counts  []map[string]float64 // of each skill's words
	lengths []float64
	average float64
	holders map[string]int // how many skills have the word
}

func newIndex(all []Skill) *index {
	x := &index{holders: map[string]int{}}
	for _, s := range all {
		counts, length := map[string]float64{}, 0.0
		add := func(text string, weight float64) {
			for _, word := range words(text) {
				counts[word] += weight
				length += weight
			}
		}
		add(s.Name, nameWeight)
		add(s.Description, 1)
		for word := range counts {
			x.holders[word]++
		}
		x.counts = append(x.counts, counts)
		x.lengths = append(x.lengths, length)
		x.average += length / float64(len(all))
	}
	return x
}

// scores returns the score of each skill for a query.
func (x *index) scores(query string) []float64 {
	asked := map[string]bool{}
	scores := make([]float64, len(x.counts))
	for _, word := range words(query) {
		if asked[word] {
			continue
		}
		asked[word] = true
		for i, counts := range x.counts {
			if n := counts[word]; n > 0 {
				norm := saturation * (1 - lengthWeight + lengthWeight*x.lengths[i]/x.average)
				scores[i] += x.rarity(x.holders[word]) / x.rarity(1) * n * (saturation + 1) / (n + norm)
			}
		}
	}
	return scores
}

// rarity is the inverse document frequency of a word that n skills have.
func (x *index) rarity(n int) float64 {
	return math.Log(1 + (float64(len(x.counts)-n)+0.5)/(float64(n)+0.5))
}

// routeByIndex is Route without a model. It is deterministic: the seed and the
// trial change nothing, and of equal scores the first name wins.
func (j *Judge) routeByIndex(r RouteRequest, catalogue []Skill) Routing {
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
