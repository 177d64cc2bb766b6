package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	sessionSkills   = 50
	sessionDays     = 90
	sessionsLatency = 20 // ms, of a page of the list
	tracePrompts    = 1000
	traceRecords    = 5000 // of one session: a prompt, two tool calls, an invocation and a model request of each turn
	traceLatency    = 50   // ms
	traceWeight     = 200  // KB
)

// benchSessions measures how soon somebody finds a session among few and among many,
// and how soon a long one is open.
func benchSessions(ctx context.Context, l *lab) ([]row, error) {
	return l.onBoth(ctx, l.sessionsOn)
}

// sessionsOn measures servers with few and with many sessions, which take turns.
func (l *lab) sessionsOn(ctx context.Context, database string, fresh func() (string, error)) ([]row, error) {
	few, many := l.readSizes()[0], l.readSizes()[1]
	lists := []struct {
		name    string
		queries []string
	}{
		{"the list", []string{"limit=50", "limit=50&skill=traced-07", "limit=50&skill=traced-07&outcome=fail", "limit=50&agent=codex", "limit=50&outcome=tool_errors"}},
		// Of few sessions, or of none: so many are compared as ever are.
		{"several filters", []string{"limit=50&agent=codex&user=me", "limit=50&agent=rare&user=me", "limit=50&skill=traced-07&agent=rare"}},
	}
	var sides []side
	var last *server
	for _, size := range []readSize{few, many} {
		s, err := l.serveSessions(ctx, fresh, size.count)
		if err != nil {
			return nil, err
		}
		defer s.stop()
		for _, list := range lists {
			requests, err := s.pages(ctx, list.queries)
			if err != nil {
				return nil, err
			}
			sides = append(sides, l.cycle(s, requests))
		}
		last = s
	}
	long, weights, err := l.longSession(ctx, last)
	if err != nil {
		return nil, err
	}
	sums, err := l.compare(ctx, append(sides, long...)...)
	if err != nil {
		return nil, err
	}
	var rows []row
	for i, list := range lists {
		before, now := sums[i], sums[len(lists)+i]
		name := fmt.Sprintf("sessions: %s, %s of %s, ", database, list.name, many.name)
		rows = append(rows,
			row{Name: name + "p50", Figure: now.p50, Unit: "ms", Beside: few.name, Other: before.p50, AtMost: readGrowth},
			row{Name: name + "p99", Figure: now.p99, Unit: "ms", Beside: limit, Other: sessionsLatency, AtMost: 1})
	}
	for i, what := range []string{"page", "API"} {
		name := fmt.Sprintf("sessions: %s, one of %d records, %s, ", database, traceRecords, what)
		rows = append(rows,
			row{Name: name + "p99", Figure: sums[2*len(lists)+i].p99, Unit: "ms", Beside: limit, Other: traceLatency, AtMost: 1},
			row{Name: name + "weight", Figure: weights[i], Unit: "KB", Beside: limit, Other: traceWeight, AtMost: 1})
	}
	return rows, nil
}

// cycle is a load of one client that sends requests by turns.
func (l *lab) cycle(s *server, requests [][]byte) side {
	return func(int) (load, error) {
		return load{addr: s.addr, conns: 1, span: l.span(), status: http.StatusOK, next: func(_, n int) []byte {
			return requests[n%len(requests)]
		}}, nil
	}
}

// pages returns requests of pages of lists, all over the time that they cover.
func (s *server) pages(ctx context.Context, queries []string) (requests [][]byte, err error) {
	for _, query := range queries {
		for week := range sessionDays / 7 {
			until := time.Now().Add(-time.Duration(week) * 7 * 24 * time.Hour).UTC().Format(time.RFC3339)
			req, err := s.request(ctx, http.MethodGet, "/v1/sessions?"+query+"&until="+url.QueryEscape(until), nil)
			if err != nil {
				return nil, err
			}
			request, err := wire(req)
			if err != nil {
				return nil, err
			}
			requests = append(requests, request)
		}
	}
	return requests, nil
}

// serveSessions starts a server on a database with so many sessions.
func (l *lab) serveSessions(ctx context.Context, fresh func() (string, error), count int) (*server, error) {
	url, err := fresh()
	if err != nil {
		return nil, err
	}
	data, err := l.folder("sessions")
	if err != nil {
		return nil, err
	}
	s, err := l.serve(ctx, data, "--database-url", url)
	if err != nil {
		return nil, err
	}
	if err := fillSessions(ctx, s, url, count); err != nil {
		s.stop()
		return nil, fmt.Errorf("fill %d sessions: %w", count, err)
	}
	return s, nil
}

// fillSessions writes sessions of 90 days straight into the database of a running
// server. Each has two skills, of which it used one; one in five was graded.
func fillSessions(ctx context.Context, s *server, url string, count int) error {
	var me struct {
		User, Organisation struct{ ID string }
	}
	if err := s.get(ctx, "/api/v1/me", &me); err != nil {
		return err
	}
	db, err := openStore(ctx, url)
	if err != nil {
		return err
	}
	defer db.Close()
	now := store.Micros(time.Now())
	for i := range sessionSkills {
		_, err := db.Exec(ctx, `INSERT INTO skills (id, org_id, name, created_at) VALUES ($1, $2, $3, $4)`,
			fmt.Sprintf("skill-%02d", i), me.Organisation.ID, fmt.Sprintf("traced-%02d", i), now)
		if err != nil {
			return err
		}
	}
	const (
		// The ids are pseudonyms, in no order: this multiplication permutes the numbers.
		id      = `'session-----------------' || CAST(10000000000 + n * 2654435761 % 4294967296 AS TEXT)`
		outcome = `CASE WHEN n % 20 < 3 THEN 'pass' WHEN n % 20 = 3 THEN 'fail' ELSE '' END`
	)
	step := sessionDays * dayMicros / int64(count)
	for first := 0; first < count; first += observedChunk {
		end := min(first+observedChunk, count)
		_, err := db.Exec(ctx, counted+`
			INSERT INTO agent_sessions (id, org_id, user_id, session_id, agent, started_at, last_at, provisional, turns, tool_calls, tool_errors,
				events, truncated, pass_rate, basis, outcome, reported_at)
			SELECT `+id+`, $3, CASE WHEN n % 2 = 0 THEN $4 ELSE 'person-' || CAST(n % 100 AS TEXT) END, CAST(n AS TEXT),
				CASE WHEN n % 3 = 0 THEN 'codex' ELSE 'claude-code' END, at, at, FALSE, 5, 20, CASE WHEN n % 10 = 0 THEN 1 ELSE 0 END, 26, FALSE,
				CASE WHEN n % 20 < 3 THEN 1000000000 WHEN n % 20 = 3 THEN 0 END, CASE WHEN n % 20 < 4 THEN 'judge' ELSE '' END,
				`+outcome+`, at
			FROM (SELECT n, CAST($5 AS BIGINT) - n * CAST($6 AS BIGINT) AS at FROM counted) AS counted`,
			first, end, me.Organisation.ID, me.User.ID, now, step)
		if err != nil {
			return err
		}
		for _, used := range []struct {
			activated, outcome string
			offset             int
		}{{"TRUE", outcome, 0}, {"FALSE", "''", 7}} {
			_, err := db.Exec(ctx, counted+`
				INSERT INTO agent_session_skills (session_id, skill_id, started_at, activated, offered, basis, outcome)
				SELECT `+id+`, 'skill-' || substr(CAST(100 + (n + CAST($3 AS BIGINT)) % 50 AS TEXT), 2), CAST($4 AS BIGINT) - n * CAST($5 AS BIGINT),
					`+used.activated+`, TRUE, '', `+used.outcome+` FROM counted`, first, end, used.offset, now, step)
			if err != nil {
				return err
			}
		}
	}
	return settle(ctx, db)
}

// longSession reports a session of many records and returns loads that open it, as a
// page and by the API, and how much the first answer of each weighs, in KB.
func (l *lab) longSession(ctx context.Context, s *server) (sides []side, weights []float64, err error) {
	var records canonicalTrace
	start := time.Now().Add(-24 * time.Hour)
	for turn := range tracePrompts {
		at := func(ms int) string {
			return start.Add(time.Duration(turn)*10*time.Second + time.Duration(ms)*time.Millisecond).UTC().Format(time.RFC3339Nano)
		}
		of := func(ms int, more pushedRecord) pushedRecord {
			more["session_id"], more["occurred_at"] = "long", at(ms)
			return more
		}
		records.Prompts = append(records.Prompts, of(0, pushedRecord{"prompt_id": fmt.Sprint("p", turn), "prompt_kind": "user"}))
		records.Invocations = append(records.Invocations, of(1, pushedRecord{
			"skill_invocation_id": fmt.Sprint("i", turn), "skill_name": fmt.Sprintf("traced-%02d", turn%sessionSkills), "triggered": true,
		}))
		records.Requests = append(records.Requests, of(2, pushedRecord{
			"request_id": fmt.Sprint("r", turn), "model": "claude-sonnet-4-5", "input_tokens": 1000, "output_tokens": 50,
		}))
		for n := range 2 {
			records.ToolCalls = append(records.ToolCalls, of(3+n, pushedRecord{
				"tool_call_id": fmt.Sprint("t", turn, n), "tool_name": "Bash", "duration_ms": 1200, "success": turn%20 > 0,
			}))
		}
	}
	req, err := s.post(ctx, "/api/v1/push", key, map[string]any{"push_id": newID(), "canonical": records})
	if err != nil {
		return nil, nil, err
	}
	if _, err := queue(s, [][]byte{req}, http.StatusCreated).run(ctx); err != nil {
		return nil, nil, err
	}
	visitor, err := signIn(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	page, err := visitor.request(ctx, "/sessions/long")
	if err != nil {
		return nil, nil, err
	}
	page.Header.Del("Accept-Encoding") // what the page weighs is what it has
	answer, err := s.request(ctx, http.MethodGet, "/v1/sessions/long", nil)
	if err != nil {
		return nil, nil, err
	}
	for _, req := range []*http.Request{page, answer} {
		size, err := bodySize(req)
		if err != nil {
			return nil, nil, err
		}
		request, err := wire(req)
		if err != nil {
			return nil, nil, err
		}
		sides, weights = append(sides, l.steady(s, request, 1)), append(weights, float64(size)/1000)
	}
	return sides, weights, nil
}

// bodySize returns how many bytes an answer has, unpacked.
func bodySize(req *http.Request) (int64, error) {
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	return io.Copy(io.Discard, answer.Body)
}

// canonicalTrace is what a push has of a session that can be opened.
type canonicalTrace struct {
	Prompts     []pushedRecord `json:"prompts"`
	Invocations []pushedRecord `json:"skill_invocations"`
	ToolCalls   []pushedRecord `json:"tool_calls"`
	Requests    []pushedRecord `json:"model_requests"`
}
