package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	noticeLimit  = 2_000 // milliseconds from the guilty grade to the notice
	noticeAlerts = 1_000 // of the organisation; one of them fires
	enoughBad    = 5     // graded sessions, of which the last makes an alert fire

	sweepAlerts = 100
	sweepSkills = 1_000
	sweepLimit  = 1_000 // milliseconds of work
)

// benchNotice measures what people wait for: from the push of the grade that
// makes an alert fire until its webhook has arrived.
func benchNotice(ctx context.Context, l *lab) ([]row, error) {
	folder, err := l.folder("notice")
	if err != nil {
		return nil, err
	}
	rows, err := l.noticeOn(ctx, "SQLite", "sqlite:"+filepath.Join(folder, "whetstone.db"))
	if err != nil {
		return nil, err
	}
	server, err := l.startPostgres()
	if err != nil {
		return rows, err
	}
	defer server.stop()
	url, err := server.database(ctx)
	if err != nil {
		return rows, err
	}
	more, err := l.noticeOn(ctx, "PostgreSQL", url)
	return append(rows, more...), err
}

// notices is how many are waited for, one after the other.
func (l *lab) notices() int {
	if l.quick {
		return 5
	}
	return 40
}

func (l *lab) noticeOn(ctx context.Context, database, url string) ([]row, error) {
	data, err := l.folder("notice")
	if err != nil {
		return nil, err
	}
	s, err := l.serve(ctx, data, "--database-url", url, "--allow-private-targets")
	if err != nil {
		return nil, err
	}
	defer s.stop()
	arrived := make(chan string, l.notices())
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var notice struct{ Skill string }
		if json.NewDecoder(r.Body).Decode(&notice) == nil {
			arrived <- notice.Skill
		}
	}))
	defer hook.Close()
	if err := s.alert(ctx, map[string]any{"type": "pass_rate_below"}, hook.URL); err != nil {
		return nil, err
	}
	if err := s.quietAlerts(ctx, noticeAlerts-1); err != nil {
		return nil, err
	}
	var r result
	for n := range l.notices() {
		skill := fmt.Sprintf("notice-%03d", n)
		if err := s.grade(ctx, 0, enoughBad-1, skill); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := s.grade(ctx, 0, 1, skill); err != nil {
			return nil, err
		}
		if err := awaitNotice(ctx, arrived, skill); err != nil {
			return nil, err
		}
		r.latencies = append(r.latencies, time.Since(start))
	}
	slices.Sort(r.latencies)
	name := "notice: " + database + ", guilty grade to webhook, "
	return []row{
		{Name: name + "p50", Figure: millis(r.quantile(0.5)), Unit: "ms", Beside: limit, Other: noticeLimit},
		{Name: name + "p99", Figure: millis(r.quantile(0.99)), Unit: "ms", Beside: limit, Other: noticeLimit, AtMost: 1},
	}, nil
}

// quietAlerts makes alerts on skills that are well.
func (s *server) quietAlerts(ctx context.Context, count int) error {
	if err := s.grade(ctx, 1, enoughBad, "well-0", "well-1", "well-2", "well-3", "well-4"); err != nil {
		return err
	}
	var list struct {
		Skills []struct {
			ID string `json:"skill_id"`
		}
	}
	if err := s.get(ctx, "/v1/skills", &list); err != nil {
		return err
	}
	for n := range count {
		of := map[string]any{"type": "pass_rate_below", "skill_id": list.Skills[n%len(list.Skills)].ID}
		if err := s.alert(ctx, of, "https://hooks.example.org/bench"); err != nil {
			return err
		}
	}
	return nil
}

// awaitNotice must not meet the notice of another skill: each has had its own.
func awaitNotice(ctx context.Context, arrived <-chan string, skill string) error {
	select {
	case got := <-arrived:
		if got != skill {
			return fmt.Errorf("a notice about %s came, want one about %s", got, skill)
		}
		return nil
	case <-time.After(4 * noticeLimit * time.Millisecond):
		return fmt.Errorf("no notice about %s came", skill)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// alert makes an alert that posts to a URL.
func (s *server) alert(ctx context.Context, fields map[string]any, url string) error {
	fields["channel"], fields["config"] = "webhook", map[string]string{"webhook_url": url}
	return s.send(ctx, "/api/v1/alerts", fields)
}

// grade pushes n sessions of each skill, all with the same grade.
func (s *server) grade(ctx context.Context, grade float64, n int, skills ...string) error {
	p := push{PushID: newID()}
	at := time.Now().UTC().Format(time.RFC3339Nano)
	for _, skill := range skills {
		for range n {
			id := newID()
			p.Canonical.Invocations = append(p.Canonical.Invocations, pushedRecord{
				"skill_invocation_id": id, "session_id": id, "skill_name": skill, "occurred_at": at, "triggered": true,
			})
			p.Canonical.Gradings = append(p.Canonical.Gradings, pushedRecord{
				"grading_id": id, "session_id": id, "skill_name": skill, "graded_at": at, "pass_rate": grade,
			})
		}
	}
	return s.send(ctx, "/api/v1/push", p)
}

// send posts what makes something new.
func (s *server) send(ctx context.Context, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := s.request(ctx, http.MethodPost, path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return call(req, http.StatusCreated, nil)
}

// benchSweep measures the work of one evaluation of many alerts on many
// skills, as the service's own metrics tell it.
func benchSweep(ctx context.Context, l *lab) ([]row, error) {
	data, err := l.folder("sweep")
	if err != nil {
		return nil, err
	}
	s, err := l.serve(ctx, data)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := fillSweep(ctx, s); err != nil {
		return nil, err
	}
	mean, err := s.sweeps(ctx, l.rounds())
	if err != nil {
		return nil, err
	}
	return []row{{
		Name: "sweep: SQLite, 100 alerts x 1,000 skills", Figure: mean, Unit: "ms", Beside: limit, Other: sweepLimit, AtMost: 1,
	}}, nil
}

// fillSweep makes skills that are well, and alerts of each sort on all of them.
func fillSweep(ctx context.Context, s *server) error {
	skills := make([]string, sweepSkills)
	for i := range skills {
		skills[i] = fmt.Sprintf("sweep-%04d", i)
	}
	for some := range slices.Chunk(skills, 100) {
		if err := s.grade(ctx, 1, enoughBad, some...); err != nil {
			return err
		}
	}
	sorts := []map[string]any{
		{"type": "pass_rate_below", "threshold": 0.5},
		{"type": "pass_rate_below", "threshold": 0.8, "sensitivity": "confident"},
		{"type": "no_data", "threshold": 7},
	}
	for i := range sweepAlerts {
		if err := s.alert(ctx, sorts[i%len(sorts)], "https://hooks.example.org/bench"); err != nil {
			return err
		}
	}
	return nil
}

// sweeps returns the mean duration of the next evaluations in milliseconds: each
// follows a grade.
func (s *server) sweeps(ctx context.Context, rounds int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	var first, before, last, after float64
	for n := range rounds + 1 { // the first one meets all skills as news
		count, _, err := s.sweepMetrics(ctx)
		if err != nil {
			return 0, err
		}
		if err := s.grade(ctx, 1, 1, "sweep-0000"); err != nil {
			return 0, err
		}
		if last, after, err = s.awaitSweeps(ctx, count+1); err != nil {
			return 0, err
		}
		if n == 0 {
			first, before = last, after
		}
	}
	return 1000 * (after - before) / (last - first), nil
}

// awaitSweeps is sweepMetrics when there were so many evaluations.
func (s *server) awaitSweeps(ctx context.Context, wanted float64) (count, sum float64, err error) {
	for {
		if count, sum, err = s.sweepMetrics(ctx); err != nil || count >= wanted {
			return count, sum, err
		}
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// sweepMetrics reads how many evaluations there were, and how many seconds
// they took together.
func (s *server) sweepMetrics(ctx context.Context) (count, sum float64, err error) {
	req, err := s.request(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, 0, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) { // most are others
		_, _ = fmt.Sscanf(line, `whetstone_job_runs_total{kind="alerts.evaluate",outcome="succeeded"} %g`, &count)
		_, _ = fmt.Sscanf(line, `whetstone_job_run_seconds_sum{kind="alerts.evaluate"} %g`, &sum)
	}
	return count, sum, nil
}
