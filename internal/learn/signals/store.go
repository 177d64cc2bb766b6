package signals

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fair"
	"github.com/whetstone-dev/whetstone/internal/base/lru"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A batch is distinct signals in the order of their source keys, and what they add. It is prepared
// before the transaction begins.
type batch struct {
	signals []Signal
	counts  tally
	members map[string]membership // those that are not known to be stored, by id
}

// batchOf counts all signals as new; insert counts again if some turn out to be duplicates.
func (s *Service) batchOf(orgID string, signals []Signal) batch {
	s.cacheOnce.Do(func() { s.memberships = lru.New[string, bool](cachedMemberships) })
	signals = distinct(signals)
	t := tallyOf(orgID, signals)
	return batch{signals, t, t.memberships(func(id string) bool { _, cached := s.memberships.Get(id); return cached })}
}

// distinct keeps the first of the signals with the same source key. They are sorted
// by that key, so that concurrent transactions lock in one order and cannot deadlock.
func distinct(signals []Signal) []Signal {
	signals = slices.Clone(signals)
	slices.SortStableFunc(signals, func(a, b Signal) int { return strings.Compare(a.SourceKey, b.SourceKey) })
	return slices.CompactFunc(signals, func(a, b Signal) bool { return a.SourceKey == b.SourceKey })
}

// bodySignals is the signals of a request, and how many of them were new.
type bodySignals struct {
	batch
	accepted int
}

// maxBodies is how many bodies share a transaction; one has at most 1,000
// signals.
const maxBodies = 16

// bodies groups concurrent bodies of an organisation into one transaction. They
// increment the same cells, so each would wait for the row locks of the one
// before until it commits. On PostgreSQL two groups run at once: one inserts while
// the other increments (+19 % signals in batches of 100 by 16 senders). SQLite has
// one writer, and two groups would only be smaller ones (about -10 % by 4 senders).
func (s *Service) bodies() *fair.GroupCommit[string, *bodySignals] {
	s.bodiesOnce.Do(func() {
		parallel := 2
		if s.DB.Dialect().OneWriter() {
			parallel = 1
		}
		s.groups = &fair.GroupCommit[string, *bodySignals]{Commit: s.storeBodies, MaxSize: maxBodies, Parallel: parallel}
	})
	return s.groups
}

type bodyCall = fair.GroupCall[*bodySignals]

// storeBodies stores a group of bodies. If that fails, each is stored by itself,
// so that a body that fails does not fail the others.
func (s *Service) storeBodies(orgID string, calls []*bodyCall) {
	if len(calls) > 1 {
		ctx := context.WithoutCancel(calls[0].Ctx) // none of them cancels the others'
		if err := s.store(ctx, orgID, calls); err == nil {
			for _, c := range calls {
				c.Answer(nil)
			}
			return
		}
	}
	for _, c := range calls {
		c.Answer(s.store(c.Ctx, orgID, []*bodyCall{c}))
	}
}

// cachedMemberships is the size of the cache of stored memberships. Most bodies
// are of contributors whose rows exist; the cache saves an insert of which every
// row would be a conflict. +19 % signals on SQLite, +7 % on PostgreSQL (batches
// of 100, 16 senders).
const cachedMemberships = 100_000

// store inserts the signals of bodies and counts the new ones, in one transaction. Nearly all
// bodies are new, so it first assumes that and falls back if a key exists. The accepted signals are
// then attributed to their bodies, the first one in the group winning.
func (s *Service) store(ctx context.Context, orgID string, bodies []*bodyCall) error {
	all := s.together(orgID, bodies)
	requests := each(bodies, func(b *bodyCall) context.Context { return b.Ctx })
	fresh, err := s.insert(ctx, orgID, all, requests, true)
	if store.IsDuplicate(err) {
		fresh, err = s.insert(ctx, orgID, all, requests, false)
	}
	if err != nil {
		return err
	}
	unclaimed := make(map[string]bool, len(fresh))
	for _, signal := range fresh {
		unclaimed[signal.SourceKey] = true
	}
	for _, b := range bodies {
		// It may be the second attempt.
		b.Value.accepted = 0
		for _, signal := range b.Value.signals {
			if unclaimed[signal.SourceKey] {
				b.Value.accepted++
				delete(unclaimed, signal.SourceKey)
			}
		}
	}
	return nil
}

// together makes one batch of bodies. What each adds was counted before it joined
// the group, since others wait for the group.
func (s *Service) together(orgID string, bodies []*bodyCall) batch {
	if len(bodies) == 1 {
		return bodies[0].Value.batch
	}
	var signals []Signal
	counts, members := newTally(orgID), map[string]membership{}
	for _, b := range bodies {
		signals = append(signals, b.Value.signals...)
		counts.merge(b.Value.counts)
		maps.Copy(members, b.Value.members)
	}
	all := distinct(signals)
	if len(all) < len(signals) { // some are counted twice
		return s.batchOf(orgID, all)
	}
	return batch{all, counts, members}
}

// insert returns the signals that were new. It also counts the requests that they are of.
func (s *Service) insert(
	ctx context.Context, orgID string, all batch, requests []context.Context, assumeNew bool,
) (fresh []Signal, err error) {
	stored := all
	err = s.DB.InGroup(ctx, func(tx *store.Tx) (err error) {
		fresh, err = insertSignals(ctx, tx, orgID, all.signals, assumeNew)
		if err == nil && len(fresh) > 0 {
			err = s.OnSignals.Changed(ctx, tx, orgID)
		}
		if err != nil {
			return err
		}
		// These come last, since their row locks are held until the commit.
		if err := httpapi.CountInTx(ctx, tx, requests...); err != nil || len(fresh) == 0 {
			return err
		}
		if stored = all; len(fresh) < len(all.signals) {
			stored = s.batchOf(orgID, fresh)
		}
		// The lock of this row orders the transactions that count for an organisation, of which
		// a snapshot updates more cells than it adds to.
		due, err := noteSenders(ctx, tx, orgID, stored.counts.sums[place{level: orgLevel}].people, s.k())
		if err != nil {
			return err
		}
		if err := incrementCells(ctx, tx, stored.counts, stored.members, s.k()); err != nil {
			return err
		}
		return s.snapshot(ctx, tx, orgID, due)
	})
	if err != nil || len(fresh) == 0 {
		return nil, err
	}
	// Only after the commit: a rollback must not leave ids in the cache whose rows don't exist.
	for id := range stored.members { // committed
		s.memberships.Put(id, true, 1)
	}
	return fresh, nil
}
