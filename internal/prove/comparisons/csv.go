package comparisons

import (
	"context"
	"encoding/csv"
	"net/http"
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
)

var csvHead = []string{
	"case_id", "case", "arm", "passed", "decided", "score", "errors", "cost_usd", "turns", "duration_ms",
}

// File returns a comparison as a CSV file: a row for each case and arm. What is not known is
// empty.
func (s *Service) File(ctx context.Context, c Comparison) (httpapi.Stream, error) {
	rows := [][]string{csvHead}
	reports, err := s.Runs.Measured(ctx, c.OrgID, c.runIDs()...)
	if err != nil {
		return nil, err
	}
	for k, a := range c.Arms {
		report := reports[k]
		side := report.Side()
		for i, of := range report.Cases {
			count, errors := side.Counts[i], 0
			for _, t := range side.Trials[i] {
				if t.Verdict == runs.Error {
					errors++
				}
			}
			var score *float64
			if count.Decided > 0 {
				rate := count.Rate()
				score = &rate
			}
			rows = append(rows, []string{
				of.ID, text.Cell(of.Label()), text.Cell(a.Name), strconv.Itoa(count.Passed), strconv.Itoa(count.Decided),
				number(score), strconv.Itoa(errors), number(runs.Mean(side.Trials[i], runs.Trial.CostUSD)),
				number(runs.Mean(side.Trials[i], runs.Trial.TurnCount)), number(runs.Mean(side.Trials[i], runs.Trial.DurationMS)),
			})
		}
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="comparison.csv"`)
		out := csv.NewWriter(w)
		out.UseCRLF = true     // RFC 4180
		_ = out.WriteAll(rows) // the client is gone
	}, nil
}

func number(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}
