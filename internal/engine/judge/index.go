package judge

import (
	"math"
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
