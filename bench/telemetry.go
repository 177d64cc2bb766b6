package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	ingestConns   = 4
	pushRecords   = 500 // in one body
	pushSessions  = 100 // in one body
	pushSkills    = 20
	ingestRatio   = 0.6  // of what the driver takes in, table by table
	bodiesRatio   = 0.75 // and body by body
	ingestMemory  = 200  // MB
	costsRatio    = 0.9  // of records without model requests
	ingestTimeout = 5 * time.Minute
)

// benchIngest measures how many records a second are acknowledged, each of
// them durable and counted then, beside the driver's batch inserts of the very
// rows that they leave behind.
func benchIngest(ctx context.Context, l *lab) ([]row, error) {
	return l.onBoth(ctx, l.ingestOn)
}

// pushes is how many bodies one round sends.
func (l *lab) pushes() int {
	if l.quick {
		return 80
	}
	return 200
}

// ingestOn lets the service and the driver take turns, each on an empty
// database, and shows the best round of each.
func (l *lab) ingestOn(ctx context.Context, database string, fresh func() (string, error)) ([]row, error) {
	var ours, apart, together, memory, paid float64
	for range l.rounds() {
		url, err := fresh()
		if err != nil {
			return nil, err
		}
		took, resident, err := l.ingest(ctx, url, newPush)
		if err != nil {
			return nil, err
		}
		raw, err := timeRaw(ctx, url, ingestTables(), rawBatch, l.pushes())
		if err != nil {
			return nil, fmt.Errorf("insert the rows with the driver: %w", err)
		}
		records := float64(l.pushes() * pushRecords)
		ours = max(ours, records/took.Seconds())
		apart, together = max(apart, records/raw.apart.Seconds()), max(together, records/raw.together.Seconds())
		memory = max(memory, resident)
		if url, err = fresh(); err != nil {
			return nil, err
		}
		if took, _, err = l.ingest(ctx, url, newPaidPush); err != nil {
			return nil, err
		}
		paid = max(paid, records/took.Seconds())
	}
	name := "ingest: " + database + ", "
	return []row{
		{Name: name + "push", Figure: ours, Unit: "records/s", Beside: "driver, table by table", Other: apart, AtLeast: ingestRatio},
		{Name: name + "push", Figure: ours, Unit: "records/s", Beside: "driver, body by body", Other: together, AtLeast: bodiesRatio},
		{Name: name + "with costs", Figure: paid, Unit: "records/s", Beside: "without", Other: ours, AtLeast: costsRatio},
		{Name: name + "memory", Figure: memory, Unit: "MB", Beside: limit, Other: ingestMemory, AtMost: 1},
	}, nil
}

// ingest pushes bodies of one kind to a new server. It returns how long
// that took, and the most memory that the server held meanwhile, in MB.
func (l *lab) ingest(ctx context.Context, url string, body func() push) (time.Duration, float64, error) {
	data, err := l.folder("ingest")
	if err != nil {
		return 0, 0, err
	}
	s, err := l.serve(ctx, data, "--database-url", url)
	if err != nil {
		return 0, 0, err
	}
	defer s.stop()
	keys, err := l.holders(ctx, url, ingestConns)
	if err != nil {
		return 0, 0, err
	}
	sent := 0
	requests, err := eachPush(l.pushes(), body, func(p push) ([]byte, error) {
		holder := keys[sent%ingestConns] // one for each connection
		sent++
		return s.post(ctx, "/api/v1/push", holder, p)
	})
	if err != nil {
		return 0, 0, err
	}
	peak := watchMemory(s.cmd.Process.Pid)
	r, err := queue(s, requests, http.StatusCreated).run(ctx)
	memory, watchErr := peak()
	if err == nil {
		err = watchErr
	}
	return r.took, memory, err
}

// queue is a load whose connections share the requests among them.
func queue(s *server, requests [][]byte, status int) load {
	return load{addr: s.addr, conns: ingestConns, span: ingestTimeout, status: status, next: func(conn, n int) []byte {
		i := n*ingestConns + conn
		if i >= len(requests) {
			return nil
		}
		return requests[i]
	}}
}

// watchMemory looks at the memory of a process every now and then until the
// function is called that it returns, which tells the most it saw, in MB.
func watchMemory(pid int) func() (float64, error) {
	stop, done := make(chan struct{}), make(chan struct{})
	var peak float64
	var err error
	go func() {
		defer close(done)
		for {
			var now float64
			if now, err = residentMemory(pid); err != nil {
				return
			}
			peak = max(peak, now)
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() (float64, error) {
		close(stop)
		<-done
		return peak, err
	}
}

// post makes a request with a JSON body as it goes over the line.
func (s *server) post(ctx context.Context, path, holder string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := s.request(ctx, http.MethodPost, path, io.Reader(bytes.NewReader(text)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+holder)
	req.Header.Set("Content-Type", "application/json")
	return wire(req)
}

// A push is one body of telemetry.
type push struct {
	PushID    string    `json:"push_id"`
	Canonical canonical `json:"canonical"`
}

type canonical struct {
	Prompts     []pushedRecord `json:"prompts"`
	Invocations []pushedRecord `json:"skill_invocations"`
	Gradings    []pushedRecord `json:"grading_results"`
	Requests    []pushedRecord `json:"model_requests,omitempty"`
}

// A pushedRecord is a record as it is sent: Whetstone and PocketBase get the
// same fields.
type pushedRecord map[string]any

// eachPush makes so many bodies, one from each developer's machine: its
// sessions are its own.
func eachPush(count int, body func() push, request func(push) ([]byte, error)) ([][]byte, error) {
	requests := make([][]byte, count)
	var err error
	for i := range requests {
		if requests[i], err = request(body()); err != nil {
			return nil, err
		}
	}
	return requests, nil
}

// newPush makes a body of invocations, with a prompt in one of eight records
// and a grading in another.
func newPush() push {
	sessions := make([]string, pushSessions)
	for i := range sessions {
		sessions[i] = newID()
	}
	now := time.Now().UTC()
	p := push{PushID: newID()}
	promptID := newID()
	for n := range pushRecords {
		at := now.Add(-time.Duration(n) * time.Minute).Format(time.RFC3339Nano)
		session, skill := sessions[n%pushSessions], fmt.Sprintf("bench-%02d", n/8%pushSkills)
		record := pushedRecord{"session_id": session, "normalized_at": at}
		c := &p.Canonical
		switch n % 8 {
		case 0:
			promptID = newID()
			record["prompt_id"], record["occurred_at"] = promptID, at
			record["prompt_kind"], record["prompt_text"] = "user", "Take the tables out of the report and check their sums."
			c.Prompts = append(c.Prompts, record)
		case 7:
			record["grading_id"], record["graded_at"] = newID(), at
			record["skill_name"], record["pass_rate"] = skill, float64(n%10)/10
			c.Gradings = append(c.Gradings, record)
		default:
			record["skill_invocation_id"], record["occurred_at"] = newID(), at
			record["skill_name"], record["matched_prompt_id"] = skill, promptID
			record["invocation_mode"], record["triggered"] = "implicit", n%3 > 0
			record["confidence"] = float64(n%100) / 100
			c.Invocations = append(c.Invocations, record)
		}
	}
	return p
}

// newPaidPush is a body in which every sixth of the invocations is a model request
// of its skill instead.
func newPaidPush() push {
	p := newPush()
	all := p.Canonical.Invocations
	p.Canonical.Invocations = nil
	for n, r := range all {
		if n%6 != 5 {
			p.Canonical.Invocations = append(p.Canonical.Invocations, r)
			continue
		}
		p.Canonical.Requests = append(p.Canonical.Requests, pushedRecord{
			"request_id": newID(), "session_id": r["session_id"], "occurred_at": r["occurred_at"], "normalized_at": r["normalized_at"],
			"skill_name": r["skill_name"], "source_prompt_id": r["matched_prompt_id"], "model": "claude-sonnet-4-5",
			"input_tokens": 1000 + n, "output_tokens": 50, "cache_read_tokens": 3000, "cache_creation_tokens": 200,
		})
	}
	return p
}
