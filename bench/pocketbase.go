package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
)

// peerIngestRatio is wanted of records a second, beside PocketBase.
const peerIngestRatio = 5

// benchIngestPeer measures how many records a second are acknowledged beside
// PocketBase, which stores them in one table and counts nothing.
func benchIngestPeer(ctx context.Context, l *lab) ([]row, error) {
	binary, err := l.buildPocketBase(ctx)
	if err != nil {
		return nil, err
	}
	var ours, theirs float64
	for range l.rounds() {
		folder, err := l.folder("ingest")
		if err != nil {
			return nil, err
		}
		took, _, err := l.ingest(ctx, "sqlite:"+filepath.Join(folder, "whetstone.db"), newPush)
		if err != nil {
			return nil, err
		}
		ours = max(ours, float64(l.pushes()*pushRecords)/took.Seconds())
		rate, err := l.ingestPocketBase(ctx, binary)
		if err != nil {
			return nil, fmt.Errorf("PocketBase: %w", err)
		}
		theirs = max(theirs, rate)
	}
	return []row{{
		Name: "ingest-peer: push", Figure: ours, Unit: "records/s",
		Beside: "PocketBase, batch API", Other: theirs, AtLeast: peerIngestRatio,
	}}, nil
}

func (l *lab) buildPocketBase(ctx context.Context) (string, error) {
	binary := filepath.Join(l.dir, "pocketbase")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "./pocketbase")
	cmd.Dir = filepath.Join(l.root, "bench")
	cmd.Env = environment("CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build PocketBase: %w\n%s", err, out)
	}
	return binary, nil
}

// ingestPocketBase sends as many records as one round pushes to a new
// PocketBase, as many in one request, and returns its records a second.
func (l *lab) ingestPocketBase(ctx context.Context, binary string) (float64, error) {
	data, err := l.folder("pocketbase")
	if err != nil {
		return 0, err
	}
	s, err := startServer(exec.CommandContext(ctx, binary, data))
	if err != nil {
		return 0, err
	}
	defer s.stop()
	if err := s.await(ctx, "/api/health"); err != nil {
		return 0, err
	}
	requests, err := eachPush(l.pushes(), newPush, func(p push) ([]byte, error) {
		return s.post(ctx, "/api/batch", key, newPocketBatch(p))
	})
	if err != nil {
		return 0, err
	}
	r, err := queue(s, requests, http.StatusOK).run(ctx)
	if err != nil {
		return 0, err
	}
	return r.rate() * pushRecords, nil
}

// A pocketBatch is a body of PocketBase's batch API.
type pocketBatch struct {
	Requests []pocketRequest `json:"requests"`
}

type pocketRequest struct {
	Method string         `json:"method"`
	URL    string         `json:"url"`
	Body   map[string]any `json:"body"`
}

// newPocketBatch makes the batch that stores the records of a push. The
// natural ids and times of all kinds share their columns.
func newPocketBatch(p push) (b pocketBatch) {
	shared := map[string]string{
		"prompt_id": "natural_id", "skill_invocation_id": "natural_id", "grading_id": "natural_id",
		"graded_at": "occurred_at",
	}
	for _, record := range slices.Concat(p.Canonical.Prompts, p.Canonical.Invocations, p.Canonical.Gradings) {
		body := maps.Clone(record)
		for from, to := range shared {
			if value, ok := body[from]; ok {
				delete(body, from)
				body[to] = value
			}
		}
		b.Requests = append(b.Requests, pocketRequest{http.MethodPost, "/api/collections/records/records", body})
	}
	return b
}
