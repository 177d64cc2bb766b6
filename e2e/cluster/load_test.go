package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

type object = map[string]any

// A writer repeats one kind of write and remembers what was acknowledged. Its
// methods are called by one goroutine at a time.
type writer interface {
	// kind names what it writes.
	kind() string
	// prepare creates what the writes need, before anything is killed.
	prepare(ctx context.Context, s *site) error
	// write makes the n-th write and retries until it is acknowledged.
	write(ctx context.Context, s *site, n int) error
	// count returns how many of its writes the service has, how many it has more
	// than once, and how many there should be.
	count(ctx context.Context, s *site) (tally, error)
}

// A tally compares what was acknowledged with what is stored.
type tally struct {
	kind                  string
	acked, lost, doubled  int
	repeated, unconfirmed int // notices sent twice under one id; writes whose answer was lost
}

// load is a set of running writers.
type load struct {
	site    *site
	writers []writer
	hooks   *receiver

	stop    chan struct{}
	wg      sync.WaitGroup
	mu      sync.Mutex
	problem error
}

// settle is how long a write is retried. It is longer than any outage, also on a
// busy machine: it bounds a broken test and measures nothing.
const settle = 90 * time.Second

// newLoad creates writers of every kind; the site must have a process.
func newLoad(t *testing.T, s *site) *load {
	t.Helper()
	l := &load{site: s, hooks: newReceiver(t), stop: make(chan struct{})}
	l.writers = []writer{
		&pushes{skill: "pushed-a"}, &pushes{skill: "pushed-b"}, &signals{}, &versions{}, &reviews{}, &runs{}, &notices{hooks: l.hooks},
	}
	for _, w := range l.writers {
		if err := w.prepare(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", w.kind(), err)
		}
	}
	return l
}

// errEnough ends a writer without a problem.
var errEnough = errors.New("enough")

// start starts the writers.
func (l *load) start(ctx context.Context) {
	for _, w := range l.writers {
		l.wg.Go(func() {
			for n := 1; ; n++ {
				select {
				case <-l.stop:
					return
				default:
				}
				if err := w.write(ctx, l.site, n); err != nil {
					if !errors.Is(err, errEnough) {
						l.fail(fmt.Errorf("%s: write %d: %w", w.kind(), n, err))
					}
					return
				}
			}
		})
	}
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problem = errors.Join(l.problem, err)
}

// finish lets the writers finish their current write.
func (l *load) finish() error {
	close(l.stop)
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problem
}

// insist retries op until it succeeds, as a client must that does not know whether
// its request arrived. A failure that a retry cannot help is an error.
func insist(ctx context.Context, op func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for {
		err := op(ctx)
		if err == nil {
			return nil
		}
		status := client.Status(err)
		if status == http.StatusTooManyRequests { // the hourly rate limit of a long test
			return errEnough
		}
		if status != 0 && status < http.StatusInternalServerError {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not acknowledged within %s: %w", settle, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// pushes reports sessions of one skill. A retry has the same push_id, by which the
// service dedups.
type pushes struct {
	skill string
	acked int
}

const sessionsAPush = 3

func (p *pushes) kind() string { return "pushes (" + p.skill + ")" }

func (p *pushes) prepare(context.Context, *site) error { return nil }

func (p *pushes) write(ctx context.Context, s *site, n int) error {
	body, err := pushBody(p.skill, fmt.Sprintf("%s-%d", p.skill, n), sessionsAPush, nil)
	if err != nil {
		return err
	}
	err = insist(ctx, func(ctx context.Context) error {
		_, err := s.client(firstKey).Push(ctx, body)
		return err
	})
	if err == nil {
		p.acked++
	}
	return err
}

// count checks the daily rollups against the number of sessions: a push that was
// counted in one of them only would show here.
func (p *pushes) count(ctx context.Context, s *site) (tally, error) {
	t := tally{kind: p.kind(), acked: p.acked}
	if p.acked == 0 {
		return t, nil
	}
	detail, err := s.client(firstKey).Skill(ctx, p.skill, 2)
	if err != nil {
		return t, err
	}
	checks := int64(0)
	for _, day := range detail.Days {
		checks += day.Checks
	}
	want := int64(p.acked * sessionsAPush)
	if checks != detail.Skill.UniqueSessions {
		return t, fmt.Errorf("%d sessions, but %d checks", detail.Skill.UniqueSessions, checks)
	}
	t.lost, t.doubled = int(max(want-checks, 0)), int(max(checks-want, 0))
	return t, nil
}

// pushBody is a push of sessions, each with one check of the skill and, if
// grade is not nil, with that grade.
func pushBody(skill, name string, sessions int, grade *float64) ([]byte, error) {
	at := time.Now().UTC().Format(time.RFC3339)
	var invocations, gradings []object
	for i := range sessions {
		id := fmt.Sprintf("%s-%d", name, i)
		invocations = append(invocations, object{
			"skill_invocation_id": id, "session_id": id, "skill_name": skill, "occurred_at": at, "triggered": true, "confidence": 0.5,
		})
		if grade != nil {
			gradings = append(gradings, object{
				"grading_id": id, "session_id": id, "skill_name": skill, "graded_at": at, "pass_rate": *grade,
			})
		}
	}
	return json.Marshal(object{
		"schema_version": "2.0", "push_id": uuid.NewString(),
		"canonical": object{"skill_invocations": invocations, "grading_results": gradings},
	})
}

// signals sends batches of contributors' signals.
type signals struct{ acked int }

const (
	signalsABatch = 8
	cohorts       = 4
)

func (*signals) kind() string { return "signals" }

func (*signals) prepare(context.Context, *site) error { return nil }

func (w *signals) write(ctx context.Context, s *site, n int) error {
	batch := make([]client.Signal, signalsABatch)
	for i := range batch {
		batch[i] = client.Signal{
			SkillName: "signalled", SignalType: "missed_trigger", Confidence: 0.5, SourceKey: fmt.Sprintf("signal-%d-%d", n, i),
			UserCohort: fmt.Sprintf("cohort-%d", i%cohorts),
		}
	}
	err := insist(ctx, func(ctx context.Context) error {
		_, err := s.client(firstKey).SendSignals(ctx, batch)
		return err
	})
	if err == nil {
		w.acked++
	}
	return err
}

func (w *signals) count(ctx context.Context, s *site) (tally, error) {
	t := tally{kind: w.kind(), acked: w.acked}
	overview, err := s.client(firstKey).SignalsOverview(ctx)
	if err != nil || w.acked == 0 {
		return t, err
	}
	if overview.Signals == nil {
		return t, errors.New("the count of signals is withheld")
	}
	// A writer that met the rate limit has sent a batch that was refused.
	want, got := int64(w.acked*signalsABatch), *overview.Signals
	t.lost, t.doubled = int(max(want-got, 0)), int(max(got-want, 0))
	return t, nil
}

// skillArchive is a skill whose content depends on n.
func skillArchive(ctx context.Context, name string, n int) ([]byte, error) {
	text := fmt.Sprintf("---\nname: %s\n"+
		"description: Does thing number %d. Use it when somebody asks for thing %d.\n---\n\n# Thing %d\n\n%s\n",
		name, n, n, n, strings.Repeat("More about it. ", 50))
	var archive bytes.Buffer
	_, err := skillpkg.Pack(ctx, fstest.MapFS{"SKILL.md": {Data: []byte(text), Mode: 0o644}}, &archive, skillpkg.PackOptions{
		Format: skillpkg.TarGz, Limits: skillpkg.DefaultLimits(),
	})
	return archive.Bytes(), err
}
