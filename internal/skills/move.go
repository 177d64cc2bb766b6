package skills

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// moveChunk is how many rows one transaction of Move handles.
const moveChunk = 500

// Move lets everything that was reported of a skill count for the one that it is
// merged into, or for itself again. It works in chunks, each of which leaves the
// rollups exact, and may be interrupted and repeated: a row that counts for the
// right skill is done. The skill from is the one that it was merged into before,
// "" for none: requests that were attributed to that one by a mark do not know by
// which name.
func (s *Service) Move(ctx context.Context, orgID, skillID, from string) (err error) {
	defer fault.Wrap(&err, "move skill %s", skillID)
	for _, table := range []string{"skill_observations", "skill_gradings"} {
		for more := true; more; {
			err := s.DB.InTx(ctx, func(tx *store.Tx) (err error) {
				more, err = s.moveRows(ctx, tx, table, orgID, skillID)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	if s.Costs == nil {
		return nil
	}
	if err := s.Costs.Move(ctx, orgID, skillID); err != nil || from == "" {
		return err
	}
	return s.Costs.Move(ctx, orgID, from)
}

// moveRows moves one chunk, and reports whether there was one.
func (s *Service) moveRows(ctx context.Context, tx *store.Tx, table, orgID, skillID string) (more bool, err error) {
	found, err := skillsByID(ctx, tx, []string{skillID})
	if err != nil || len(found) == 0 {
		return false, err
	}
	ids, users, err := misplacedRows(ctx, tx, table, found[0], moveChunk)
	if err != nil || len(ids) == 0 {
		return false, err
	}
	byUser := map[string][]string{}
	for i, id := range ids {
		byUser[users[i]] = append(byUser[users[i]], id)
	}
	if err := lockUsers(ctx, tx, users); err != nil {
		return false, err
	}
	for userID, ids := range byUser {
		observations, gradings := ids, []string(nil)
		if table == "skill_gradings" {
			observations, gradings = gradings, observations
		}
		changed, err := s.reingest(ctx, tx, Report{OrgID: orgID, UserID: userID}, observations, gradings)
		if err == nil && s.Costs != nil {
			err = s.Costs.Follow(ctx, tx, orgID, userID, changed.Sessions)
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}
