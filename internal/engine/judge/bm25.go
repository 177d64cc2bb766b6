package judge

import "fmt"

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
