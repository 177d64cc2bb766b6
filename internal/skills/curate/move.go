package curate

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
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
			err := s.DB.InTx(ctx, func(tx *store.Tx) (err error) {
				more, err = s.moveRows(ctx, tx, table, orgID, skillID)
				return err
			})
			if err != nil {
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

// moveRows moves one chunk, and reports whether there was one.
func (s *Service) moveRows(ctx context.Context, tx *store.Tx, table, orgID, skillID string) (more bool, err error) {
	k, err := targetSkill(ctx, tx, orgID, skillID)
	if err != nil {
		return false, err
	}
	rows, err := misplacedRows(ctx, tx, table, k, moveChunk)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	byUser, users := map[string][]string{}, make([]string, len(rows))
	for i, r := range rows {
		byUser[r.userID], users[i] = append(byUser[r.userID], r.id), r.userID
	}
	if err := skills.LockUsers(ctx, tx, users); err != nil {
		return false, err
	}
	for userID, ids := range byUser {
		observations, gradings := ids, []string(nil)
		if table == "skill_gradings" {
			observations, gradings = gradings, observations
		}
		of := skills.Report{OrgID: orgID, UserID: userID}
		if err := s.Skills.Reingest(ctx, tx, of, observations, gradings); err != nil {
			return false, err
		}
	}
	return true, nil
}
