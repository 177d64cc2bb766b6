package judge_test

import (
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

// BenchmarkGrade500 grades 500 outputs, 16 at once, by a model that takes
// 50 ms, twice for each: 1.0 is the time in which nothing but the model takes
// time.
func BenchmarkGrade500(b *testing.B) {
	const cases, atOnce, latency = 500, 16, 50 * time.Millisecond
	model := judgetest.Model{
		Criteria: gradeRequest().Criteria,
		Grade:    func(_, material string) (string, bool) { return material, true },
	}
	s := judgetest.New(b, model.Respond)
	s.Latency = latency
	j, err := judge.New(judge.Options{API: judge.OpenAI, URL: s.URL(judge.OpenAI), Model: "m", Concurrency: atOnce})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var wg sync.WaitGroup
		for range cases {
			wg.Go(func() {
				if _, err := j.Grade(b.Context(), gradeRequest()); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
	ideal := 2 * latency * cases / atOnce
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(ideal), "x-ideal")
}

// BenchmarkBuiltin routes a query among nine skills.
func BenchmarkBuiltin(b *testing.B) {
	j, err := judge.New(judge.Options{API: judge.Builtin})
	if err != nil {
		b.Fatal(err)
	}
	r := judge.RouteRequest{Query: "turn this outline into slides with speaker notes", Skill: routeRequest().Skill}
	r.Distractors = judge.Distractors(nil, "", 1)
	for b.Loop() {
		if _, err := j.Route(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}
