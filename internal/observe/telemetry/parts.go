package telemetry

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// maxPart is how many items of each kind one transaction ingests. A body of the
// size limit has hundreds of thousands: in one transaction they would hold as much
// memory as all else together, and hold the write lock of SQLite for as long
// as half a minute.
const maxPart = 2000

// ingestParts ingests a large batch except for its last part, which it returns:
// the whole batch, as a rule. A crash leaves some of the parts, which a retry
// finds: all items have ids of their own.
func (s *Service) ingestParts(ctx context.Context, c access.Caller, b batch) (last batch, err error) {
	for max(len(b.observations), len(b.reports), len(b.clues), len(b.gradings), len(b.requests), len(b.marks),
		len(b.loads), len(b.sightings), len(b.events), len(b.prompts), len(b.records)) > maxPart {
		part := b.take()
		err := s.DB.InTx(ctx, func(tx *store.Tx) error { return s.ingestPart(ctx, tx, c, part) })
		if err != nil {
			return b, err
		}
	}
	return b, nil
}

// ingestPart stores a part and what follows from it.
func (s *Service) ingestPart(ctx context.Context, tx *store.Tx, c access.Caller, part batch) error {
	if err := skills.LockUser(ctx, tx, c.UserID); err != nil {
		return err
	}
	if err := upsertPrompts(ctx, tx, c, part.prompts); err != nil {
		return err
	}
	if err := upsertRecords(ctx, tx, c, part.records); err != nil {
		return err
	}
	return s.observe(ctx, tx, c, part)
}

// take takes a part off the batch. Sightings come first: activations are shown
// only in sessions that are known.
func (b *batch) take() batch {
	if len(b.sightings) > maxPart {
		return batch{sightings: takeSome(&b.sightings)}
	}
	return batch{
		observations: takeSome(&b.observations), reports: takeSome(&b.reports), clues: takeSome(&b.clues),
		gradings: takeSome(&b.gradings), requests: takeSome(&b.requests),
		marks: takeSome(&b.marks), loads: takeSome(&b.loads), sightings: takeSome(&b.sightings), events: takeSome(&b.events),
		prompts: takeSome(&b.prompts), records: takeSome(&b.records),
	}
}

func takeSome[T any](items *[]T) []T {
	n := min(len(*items), maxPart)
	some := (*items)[:n]
	*items = (*items)[n:]
	return some
}
