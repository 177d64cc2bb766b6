package judge

import (
	"fmt"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/judge/bm25"
)

// BuiltinModel is the version of the built-in judge's ranking, stop words and
// threshold. A change of one of them needs a new version: results of different
// versions must not be compared.
const BuiltinModel = "bm25-1"

// threshold is the score below which no skill is chosen: one word in the name, or
// two in the description, that no other skill has.
const threshold = 1.25

// routeByBM25 is Route without a model. It is deterministic: seed and trial have
// no effect, and the first name wins a tie.
func (j *Judge) routeByBM25(r RouteRequest, catalogue []Skill) Routing {
	rec := j.newRecord(BuiltinModel, "")
	rec.Seed, rec.Trial = r.Seed, r.Trial
	slices.SortFunc(catalogue, byName)
	best, second, at := 0.0, 0.0, -1
	ranked := bm25.New(len(catalogue), func(i int) (name, text string) { return catalogue[i].Name, catalogue[i].Description })
	for i, score := range ranked.Scores(r.Query) {
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
