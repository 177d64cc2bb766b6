package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// The parameters of BM25.
const (
	bm25K1         = 1.2  // term frequency saturation
	bm25B          = 0.75 // length normalisation
	bm25NameWeight = 2    // occurrences that a word in the name counts as
)

// An index ranks documents, which have a name and a text, by BM25. Scores are
// normalised to a word that occurs once, in one document of average length, so that a
// threshold does not depend on their number.
type index struct {
	postings map[string][]posting // by word: the documents that have it
	lengths  []float64
	average  float64
}

// A posting is a document with a word.
type posting struct {
	document int
	freq     float64
}

// newIndex indexes count documents, which document returns by their number. Words in the name count
// bm25NameWeight times.
func newIndex(count int, document func(i int) (name, text string)) *index {
	x := &index{postings: map[string][]posting{}}
	for i := range count {
		name, text := document(i)
		termFreq, length := map[string]float64{}, 0.0
		add := func(text string, weight float64) {
			for _, word := range Stems(text) {
				termFreq[word] += weight
				length += weight
			}
		}
		add(name, bm25NameWeight)
		add(text, 1)
		for word, freq := range termFreq {
			x.postings[word] = append(x.postings[word], posting{i, freq})
		}
		x.lengths = append(x.lengths, length)
		x.average += length / float64(count)
	}
	return x
}

// Scores returns the score of each document for a query.
func (x *index) Scores(query string) []float64 {
	seen := map[string]bool{}
	scores := make([]float64, len(x.lengths))
	for _, word := range Stems(query) {
		if seen[word] {
			continue
		}
		seen[word] = true
		found := x.postings[word]
		for _, p := range found {
			norm := bm25K1 * (1 - bm25B + bm25B*x.lengths[p.document]/x.average)
			// Divided by idf(1), the score of a word that only one document has doesn't grow with
			// the number of documents.
			scores[p.document] += x.idf(len(found)) / x.idf(1) * p.freq * (bm25K1 + 1) / (p.freq + norm)
		}
	}
	return scores
}

// idf is the inverse document frequency of a word in n documents.
func (x *index) idf(n int) float64 {
	return math.Log(1 + (float64(len(x.lengths)-n)+0.5)/(float64(n)+0.5))
}

// BuiltinModel is the version of the built-in judge's ranking, stop words and
// threshold. A change of one of them needs a new version: results of different
// versions must not be compared.
const BuiltinModel = "bm25-1"

// routeByBM25 is Route without a model. It is deterministic: seed and trial have
// no effect, and the first name wins a tie.
func (j *Judge) routeByBM25(r RouteRequest, catalogue []Skill) Routing {
	rec := j.newRecord(BuiltinModel, "")
	rec.Seed, rec.Trial = r.Seed, r.Trial
	chosen, best, second := NewLexicalRouter(catalogue).Route(r.Query)
	if chosen == "" {
		return Routing{
			// Below the threshold the closer the best score is to it, the less sure "none" is: from
			// 1 down to a half.
			Confidence: 1 - best/(2*lexicalThreshold),
			Reason:     fmt.Sprintf("builtin BM25: no skill scores %.2f or more; the best has %.2f", lexicalThreshold, best),
			Record:     rec,
		}
	}
	return Routing{
		Skill:      chosen,
		Confidence: best / (best + second),
		Reason:     fmt.Sprintf("builtin BM25: score %.2f, the next has %.2f", best, second),
		Record:     rec,
	}
}

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
