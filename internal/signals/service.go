package signals

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/lru"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Watcher is a hook for new signals. The proposals fulfil it.
type Watcher interface {
	// Changed is called in the transaction that stores them.
	Changed(ctx context.Context, tx *store.Tx, orgID string) error
}

// A PendingCounter is a hook for a figure of the overview. The proposals
// fulfil it, which are made from findings.
type PendingCounter interface {
	// Pending counts the proposals of an organisation that wait for a decision.
	Pending(ctx context.Context, orgID string) (int, error)
}

// Service takes in signals and tells what they say together.
type Service struct {
	DB *store.DB
	// Secret is the installation's own: contributors are kept as its hashes.
	Secret    []byte
	Watcher   Watcher
	Proposals PendingCounter
	// MinContributors is how many contributors a figure must have to be shown; 0
	// means DefaultMinContributors.
	MinContributors int

	sharesOnce sync.Once
	shares     *lru.Cache[string, bool] // ids of signal_contributors that are stored

	bodiesOnce sync.Once
	groups     *store.GroupCommit[string, *bodySignals] // by organisation
}

func (s *Service) k() int { return cmp.Or(s.MinContributors, DefaultMinContributors) }

// Withheld says why a figure is not shown, and what would show it.
func (s *Service) Withheld() string {
	return fmt.Sprintf("Withheld because fewer than %d people contributed to it, or to a figure that it would give away; it is shown once more people "+
		"contribute, or if the operator lowers --signals-min-contributors.", s.k())
}

// keptShares is how many shares are remembered: most contributors come again.
const keptShares = 100_000

func (s *Service) knownShares() *lru.Cache[string, bool] {
	s.sharesOnce.Do(func() { s.shares = lru.New[string, bool](keptShares) })
	return s.shares
}

// Result is what came of a body.
type Result struct {
	Session    bool // it was the object of one session
	Accepted   int
	Duplicates int
	// NotRelay says that the body names cohorts, which only a relay's may.
	NotRelay bool
}

// Ingest takes in a body: a batch of signals, or the object of one session.
// A batch is taken whole or not at all; a signal of it whose source key the
// organisation has sent before is a duplicate, and counts no second time.
func (s *Service) Ingest(ctx context.Context, c access.Caller, body []byte) (result Result, err error) {
	defer fault.Wrap(&err, "signals")
	signals, result, err := s.read(c, body)
	if err != nil {
		return result, err
	}
	b := &bodySignals{signals: signals}
	if err := s.bodies().Do(ctx, c.OrgID, b); err != nil {
		return result, err
	}
	result.Accepted, result.Duplicates = b.accepted, len(signals)-b.accepted
	return result, nil
}

// read tells the two bodies apart by the type of signals.
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
		if err := json.Unmarshal(body, &f); err != nil {
			return nil, Result{}, err
		}
		if err := json.Unmarshal(inner, &session); err != nil {
			return nil, Result{}, err
		}
		signal := r.session(f, session)
		return []Signal{signal}, Result{Session: true, NotRelay: r.notRelay}, r.err()
	}
	signals := r.batch(e)
	return signals, Result{NotRelay: r.notRelay}, r.err()
}
