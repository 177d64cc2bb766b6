package cluster_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
)

// versions publishes versions of one entry. A retry after a lost answer sends the
// same bytes under the same number, which must not be a conflict.
type versions struct {
	entry  string
	hashes map[string]string // of the archives, by version
	last   string
}

func (*versions) kind() string { return "versions" }

func (w *versions) prepare(ctx context.Context, s *site) error {
	w.hashes = map[string]string{}
	archive, err := skillArchive(ctx, "published", 0)
	if err != nil {
		return err
	}
	made, err := s.client(firstKey).CreateEntry(ctx, client.Upload{
		Name: "published", Version: "0.0.0", Archive: bytes.NewReader(archive), Size: int64(len(archive)),
	})
	w.entry, w.hashes["0.0.0"], w.last = made.Entry.ID, hashOf(archive), "0.0.0"
	return err
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func (w *versions) write(ctx context.Context, s *site, n int) error {
	archive, err := skillArchive(ctx, "published", n)
	if err != nil {
		return err
	}
	version := fmt.Sprintf("0.0.%d", n)
	err = insist(ctx, func(ctx context.Context) error {
		_, err := s.client(firstKey).PushVersion(ctx, w.entry, client.Upload{
			Version: version, Archive: bytes.NewReader(archive), Size: int64(len(archive)),
		})
		return err
	})
	if err == nil {
		w.hashes[version], w.last = hashOf(archive), version
	}
	return err
}

// count also downloads every archive, since a version must have its bytes.
func (w *versions) count(ctx context.Context, s *site) (tally, error) {
	t := tally{kind: w.kind(), acked: len(w.hashes)}
	all, err := s.client(firstKey).Versions(ctx, w.entry)
	if err != nil {
		return t, err
	}
	found := map[string]int{}
	for _, v := range all {
		found[v.Version]++
		if v.IsCurrent != (v.Version == w.last) {
			return t, fmt.Errorf("version %s has is_current %t, and %s was pushed last", v.Version, v.IsCurrent, w.last)
		}
	}
	for version, hash := range w.hashes {
		switch found[version] {
		case 0:
			t.lost++
		case 1:
			if _, err := s.client(firstKey).DownloadVersion(ctx, w.entry, version, client.Wanted{ContentHash: hash}); err != nil {
				return t, fmt.Errorf("download %s: %w", version, err)
			}
		default:
			t.doubled++
		}
	}
	return t, nil
}

// reviews decides on suggestions of one source. The id of a suggestion makes its
// review idempotent.
type reviews struct {
	source string
	acked  int
}

func (*reviews) kind() string { return "reviews" }

func (w *reviews) prepare(ctx context.Context, s *site) (err error) {
	w.source, err = upload(ctx, s, "reviewed")
	return err
}

// upload creates a source with a snapshot.
func upload(ctx context.Context, s *site, name string) (string, error) {
	archive, err := skillArchive(ctx, name, 1)
	if err != nil {
		return "", err
	}
	taken, err := s.client(firstKey).UploadSource(ctx, client.SourceUpload{Label: name, Archive: archive})
	return taken.ID, err
}

func (w *reviews) write(ctx context.Context, s *site, n int) error {
	suggestion := api.Suggestion{
		ID: uuid.NewString(), Query: fmt.Sprintf("do thing %d", n), ShouldTrigger: true, Source: "linked_telemetry",
		Provenance: "missed_query", ObservedCount: 1, Confidence: 0.5, LastObservedAt: api.Time(time.Now()),
	}
	err := insist(ctx, func(ctx context.Context) error {
		_, err := s.client(firstKey).ReviewSuggestion(ctx, w.source, suggestion, "accepted")
		return err
	})
	if err == nil {
		w.acked++
	}
	return err
}

func (w *reviews) count(ctx context.Context, s *site) (tally, error) {
	t := tally{kind: w.kind(), acked: w.acked}
	detail, err := s.client(firstKey).Source(ctx, w.source)
	if err != nil {
		return t, err
	}
	t.lost, t.doubled = max(w.acked-detail.ReviewCount, 0), max(detail.ReviewCount-w.acked, 0)
	return t, nil
}

// runs starts eval runs. That is not idempotent: after a lost answer there may be a
// run that this writer does not know of, so such starts are only counted.
type runs struct {
	source, suite string
	ids           []string
	unconfirmed   int
}

const casesARun = 4

func (*runs) kind() string { return "runs" }

func (w *runs) prepare(ctx context.Context, s *site) (err error) {
	if w.source, err = upload(ctx, s, "tested"); err != nil {
		return err
	}
	var cases []api.CaseFields
	for i := range casesARun {
		cases = append(cases, api.CaseFields{
			"case_kind": json.RawMessage(`"trigger_query"`), "id": json.RawMessage(fmt.Sprintf(`"case-%d"`, i)),
			"query":       json.RawMessage(fmt.Sprintf(`"please do thing number 1, variant %d"`, i)),
			"expectation": json.RawMessage(`"should_trigger"`),
		})
	}
	suite, err := s.client(firstKey).CreateEvalSuite(ctx, api.NewEvalSuite{
		Name: "torture", SourceKind: "manual", VerifierKind: "llm_judge", Cases: cases,
	})
	w.suite = suite.ID
	return err
}

func (w *runs) write(ctx context.Context, s *site, _ int) error {
	err := insist(ctx, func(ctx context.Context) error {
		run, err := s.client(firstKey).StartEvalRun(ctx, w.suite, api.NewEvalRun{Subject: api.EvalSubject{SourceID: w.source}})
		if err == nil {
			w.ids = append(w.ids, run.ID)
		} else if !strings.Contains(err.Error(), "refused") { // the request may have arrived
			w.unconfirmed++
		}
		return err
	})
	// Runs take longer than their start, and would pile up.
	select {
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
	return err
}

func (w *runs) count(ctx context.Context, s *site) (tally, error) {
	t := tally{kind: w.kind(), acked: len(w.ids), unconfirmed: w.unconfirmed}
	for _, id := range w.ids {
		run, err := s.client(firstKey).EvalRun(ctx, id)
		if client.Status(err) == http.StatusNotFound {
			t.lost++
			continue
		}
		if err != nil {
			return t, err
		}
		if run.Status != "succeeded" || run.Progress.Done != casesARun || run.Totals.Errors > 0 {
			return t, fmt.Errorf("run %s is %s with %+v done and %+v", id, run.Status, run.Progress, run.Totals)
		}
		for _, c := range run.Cases {
			if len(c.Trials) != 1 {
				t.doubled++
			}
		}
	}
	return t, nil
}

// notices makes skills fail, for each of which an alert must call its webhook.
type notices struct {
	hooks  *receiver
	skills []string
}

func (*notices) kind() string { return "alert notices" }

func (w *notices) prepare(ctx context.Context, s *site) error {
	got, err := s.ask(ctx, http.MethodPost, s.balancer.URL+"/api/v1/alerts", object{
		"type": "pass_rate_below", "threshold": 0.75, "channel": "webhook", "config": object{"webhook_url": w.hooks.URL},
	})
	if err == nil && got.status != http.StatusCreated {
		err = fmt.Errorf("status %d: %s", got.status, got.body)
	}
	return err
}

func (w *notices) write(ctx context.Context, s *site, n int) error {
	failed, skill := 0.0, fmt.Sprintf("failing-%d", n)
	body, err := pushBody(skill, skill, 5, &failed)
	if err != nil {
		return err
	}
	err = insist(ctx, func(ctx context.Context) error {
		_, err := s.client(firstKey).Push(ctx, body)
		return err
	})
	if err == nil {
		w.skills = append(w.skills, skill)
	}
	select {
	case <-ctx.Done():
	case <-time.After(200 * time.Millisecond): // each evaluation looks at all of them
	}
	return err
}

func (w *notices) count(context.Context, *site) (tally, error) {
	t := tally{kind: w.kind(), acked: len(w.skills)}
	w.hooks.mu.Lock()
	defer w.hooks.mu.Unlock()
	for _, skill := range w.skills {
		ids := w.hooks.got[skill]
		if len(ids) == 0 {
			t.lost++
		}
		t.doubled += max(len(ids)-1, 0)
		for _, n := range ids {
			t.repeated += n - 1
		}
	}
	return t, errors.Join(w.hooks.problems...)
}

// A receiver is the webhook of an alert. It is never killed. A notice is delivered
// at least once: the same Webhook-Id may come again, by which receivers dedup,
// but a second id for one alert would be a second notice.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	got      map[string]map[string]int // how often each id was received, by skill
	problems []error
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{got: map[string]map[string]int{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender has died
	}
	var notice struct{ Status, Skill string }
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := json.Unmarshal(body, &notice); err != nil || notice.Status != "firing" {
		r.problems = append(r.problems, fmt.Errorf("a notice that is not firing: %s", body))
	}
	if r.got[notice.Skill] == nil {
		r.got[notice.Skill] = map[string]int{}
	}
	r.got[notice.Skill][req.Header.Get("Webhook-Id")]++
	w.WriteHeader(http.StatusNoContent)
}
