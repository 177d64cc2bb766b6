package curate

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// move is the job that moves what was reported of a skill.
type move struct {
	OrgID   string `json:"org_id"`
	SkillID string `json:"skill_id"`
	From    string `json:"from,omitempty"` // what it was merged into before
}

// Kind names the job.
func (move) Kind() string { return "skills.move" }

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
			if more, err = s.moveRows(ctx, table, orgID, skillID); err != nil {
				return err
			}
		}
	}
	if s.Skills.Costs == nil {
		return nil
	}
	if err := s.Skills.Costs.Move(ctx, orgID, skillID); err != nil || from == "" {
		return err
	}
	return s.Skills.Costs.Move(ctx, orgID, from)
}

// moveRows moves one chunk, and reports whether there was one. Each user's rows
// have a transaction: one that waits for a user must not hold counters.
func (s *Service) moveRows(ctx context.Context, table, orgID, skillID string) (more bool, err error) {
	k, err := skillByIDOrName(ctx, s.DB, orgID, skillID)
	if err != nil {
		return false, err
	}
	rows, err := misplacedRows(ctx, s.DB, table, k, moveChunk)
	byUser := map[string][]string{}
	for _, r := range rows {
		byUser[r.userID] = append(byUser[r.userID], r.id)
	}
	for userID, ids := range byUser {
		err := s.DB.InTx(ctx, func(tx *store.Tx) error {
			if err := skills.LockUser(ctx, tx, userID); err != nil {
				return err
			}
			observations, gradings := ids, []string(nil)
			if table == "skill_gradings" {
				observations, gradings = gradings, observations
			}
			of := skills.Report{OrgID: orgID, UserID: userID}
			return s.Skills.Reingest(ctx, tx, of, observations, gradings)
		})
		if err != nil {
			return false, err
		}
	}
	return len(rows) > 0, err
}
