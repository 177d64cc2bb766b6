package signals

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fair"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/lru"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// OnSignals is a hook of new signals: proposals are made from them.
type OnSignals interface {
	// Changed is called in the transaction that stores them.
	Changed(ctx context.Context, tx *store.Tx, orgID string) error
}

// OnOverview is a hook of the overview, which has a figure of proposals.
type OnOverview interface {
	// Pending counts the proposals of an organisation that await a decision.
	Pending(ctx context.Context, orgID string) (int, error)
}

// Service ingests signals and publishes their aggregates.
// The caches are per process and only save queries: correctness is in the database.
type Service struct {
	DB *store.DB
	// Secret keys the hashes that contributors are stored as.
	Secret     []byte
	OnSignals  OnSignals
	OnOverview OnOverview
	// MinContributors is k: a figure of fewer contributors is suppressed. 0 means
	// DefaultMinContributors.
	MinContributors int

	cacheOnce   sync.Once
	memberships *lru.Cache[string, bool] // ids of rows of signal_contributors that exist

	bodiesOnce sync.Once
	groups     *fair.GroupCommit[string, *bodySignals] // by organisation
}

func (s *Service) k() int { return cmp.Or(s.MinContributors, DefaultMinContributors) }

// Withheld explains why a figure is suppressed, and what would show it. It is shown to people
// instead of an empty cell.
func (s *Service) Withheld() string {
	return fmt.Sprintf("Withheld because fewer than %d people contributed to it, or to a figure that it would give away;"+
		" it is shown once more people contribute, or if the operator lowers --signals-min-contributors.", s.k())
}

// Result is the outcome of an ingested body.
type Result struct {
	Session    bool // the body was one session, not a batch
	Accepted   int
	Duplicates int
	// NotRelay reports that the body names cohorts, which only the key of a relay
	// may do.
	NotRelay bool
}

// Ingest stores a body: a batch of signals, or one session. A batch is stored
// completely or not at all. It is idempotent: a signal whose source key the
// organisation has sent before is a duplicate and is not counted again. Concurrent bodies of an
// organisation share a transaction; see bodies.
func (s *Service) Ingest(ctx context.Context, c access.Caller, body []byte) (result Result, err error) {
	defer fault.Wrap(&err, "signals")
	signals, result, err := s.read(c, body)
	if err != nil {
		return result, err
	}
	b := &bodySignals{batch: s.batchOf(c.OrgID, signals)}
	if err := s.bodies().Do(ctx, c.OrgID, b); err != nil {
		return result, err
	}
	result.Accepted, result.Duplicates = b.accepted, len(signals)-b.accepted
	return result, nil
}

// read parses and validates a body. The JSON type of "signals" decides which of
// the two bodies it is. Everything that is wrong with the body is collected and returned as one
// error.
func (s *Service) read(c access.Caller, body []byte) ([]Signal, Result, error) {
	r := &reader{service: s, caller: c, now: time.Now(), user: s.contributor(c.OrgID, "user", c.UserID)}
	var e envelope
	if err := httpapi.DecodeJSON(body, &e); err != nil {
		return nil, Result{}, fault.Invalid("", "the body must be a JSON object")
	}
	switch inner := bytes.TrimLeft(e.Signals, " \t\r\n"); {
	case len(inner) == 0 || string(inner) == "null":
		return nil, Result{}, fault.Invalid("signals", "signals is required")
	case inner[0] == '{':
		var f, session fields
		if err := httpapi.DecodeJSON(body, &f); err != nil {
			return nil, Result{}, err
		}
		if err := httpapi.DecodeJSON(inner, &session); err != nil {
			return nil, Result{}, err
		}
		signal := r.session(f, session)
		return []Signal{signal}, Result{Session: true, NotRelay: r.notRelay}, r.err()
	}
	signals := r.batch(e)
	return signals, Result{NotRelay: r.notRelay}, r.err()
}
