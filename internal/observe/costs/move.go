package costs

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// moveChunk is how many requests one transaction of Move handles.
const moveChunk = 500

// Move attributes the requests that count for a skill anew, after a name was merged
// into another skill or taken out of it. It works in chunks, each of which leaves
// the rollups exact, and may be interrupted and repeated.
func (s *Service) Move(ctx context.Context, orgID, skillID string) (err error) {
	defer fault.Wrap(&err, "move the costs of skill %s", skillID)
	for after, last := "", ""; ; after = last {
		err := s.DB.InTx(ctx, func(tx *store.Tx) (err error) {
			last, err = moveSome(ctx, tx, orgID, skillID, after)
			return err
		})
		if err != nil || last == "" {
			return err
		}
	}
}

// moveSome moves one chunk and returns the last id of it, "" if there was none.
func moveSome(ctx context.Context, tx *store.Tx, orgID, skillID, after string) (last string, err error) {
	ids, users, err := requestsOfSkill(ctx, tx, orgID, skillID, after, moveChunk)
	if err != nil || len(ids) == 0 {
		return "", err
	}
	if err := skills.LockUsers(ctx, tx, users); err != nil {
		return "", err
	}
	known, err := requestsByID(ctx, tx, ids)
	if err != nil {
		return "", err
	}
	in := newIngestion(tx, orgID, "")
	in.load(known)
	if err := in.attribute(ctx); err != nil {
		return "", err
	}
	if err := in.follow(ctx, nil); err != nil {
		return "", err
	}
	return ids[len(ids)-1], in.write(ctx)
}

// Follow lets the costs of sessions follow their versions and grades.
func (s *Service) Follow(ctx context.Context, tx *store.Tx, orgID string, sessions []skills.Session) error {
	return s.Ingest(ctx, tx, Report{OrgID: orgID, Sessions: sessions})
}
