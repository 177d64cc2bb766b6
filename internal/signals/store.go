package signals

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// bodySignals are the signals of a body, and how many of them were new.
type bodySignals struct {
	signals  []Signal
	accepted int
}

// maxBodies is how many bodies share a transaction; one has at most 1,000
// signals.
const maxBodies = 16

// bodies collects the bodies of an organisation that come at the same time.
// They count in the same cells, so one after the other would wait for the
// commit of the one before. Two go on at once: while one counts, the other can
// store.
func (s *Service) bodies() *store.GroupCommit[string, *bodySignals] {
	s.bodiesOnce.Do(func() {
		s.groups = &store.GroupCommit[string, *bodySignals]{Commit: s.storeBodies, MaxSize: maxBodies, Leaders: 2}
	})
	return s.groups
}

// storeBodies stores bodies together. If that fails each is stored by itself:
// a failure is rare and must not be the others' failure.
func (s *Service) storeBodies(orgID string, calls []*store.GroupCall[*bodySignals]) {
	if len(calls) > 1 {
		var all []*bodySignals
		for _, c := range calls {
			all = append(all, c.Value)
		}
		if err := s.store(context.Background(), orgID, all); err == nil {
			for _, c := range calls {
				c.Answer(nil)
			}
			return
		}
	}
	for _, c := range calls {
		c.Answer(s.store(c.Ctx, orgID, []*bodySignals{c.Value}))
	}
}

// store stores signals and counts those that are new, in one transaction. Most
// bodies have nothing that was sent before.
func (s *Service) store(ctx context.Context, orgID string, bodies []*bodySignals) error {
	signals, senders := firstOfEach(bodies)
	fresh, err := s.storeNew(ctx, orgID, signals, store.Bulk.InsertNew)
	if errors.Is(err, store.ErrSomeKnown) {
		fresh, err = s.storeNew(ctx, orgID, signals, store.Bulk.InsertReturning)
	}
	if err != nil {
		return err
	}
	for _, signal := range fresh {
		senders[signal.SourceKey].accepted++
	}
	return nil
}

func (s *Service) storeNew(ctx context.Context, orgID string, signals []Signal, insert insertion) (fresh []Signal, err error) {
	known := s.knownShares()
	var shares map[string]share
	err = s.DB.InGroup(ctx, func(tx *store.Tx) (err error) {
		fresh, err = insertSignals(ctx, tx, orgID, signals, insert)
		if err != nil || len(fresh) == 0 {
			return err
		}
		if err := s.Watcher.Changed(ctx, tx, orgID); err != nil {
			return err
		}
		t := tallyOf(orgID, fresh)
		shares = t.shares(func(id string) bool { _, ok := known.Get(id); return ok })
		// The cells come last: whoever counts in the same ones waits from here on.
		return addCells(ctx, tx, t, shares, s.k())
	})
	if err != nil {
		return nil, err
	}
	for id := range shares {
		known.Put(id, true, 1)
	}
	return fresh, nil
}

// firstOfEach keeps of the signals with the same source key the one that came
// first, sorted by that key, so that two transactions lock in one order. It
// also says whose each is.
func firstOfEach(bodies []*bodySignals) ([]Signal, map[string]*bodySignals) {
	var signals []Signal
	senders := map[string]*bodySignals{}
	for _, b := range bodies {
		for _, signal := range b.signals {
			if senders[signal.SourceKey] == nil {
				senders[signal.SourceKey] = b
				signals = append(signals, signal)
			}
		}
	}
	slices.SortFunc(signals, func(a, b Signal) int { return strings.Compare(a.SourceKey, b.SourceKey) })
	return signals, senders
}
