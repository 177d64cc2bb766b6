package alerts

import (
	"context"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// An Outcome is what became of the rollback of a firing alert. It is zero as long as
// nothing had to be done, e.g. since the current version is not below the threshold.
type Outcome struct {
	Version   string    // that was taken back; "" if none was
	At        time.Time // when
	BlockedBy release.Blocked
	Needs     int64 // graded sessions that are missing
}

// tooFewSessions is why a version is not taken back yet: it has too few graded
// sessions of its own.
const tooFewSessions release.Blocked = "too_few_sessions"

// maxOwn is how many gradings of an earlier version say whether it holds.
const maxOwn = 2_000

// note says in a notification what became of a rollback of the current version.
func (b Outcome) note(current string) string {
	switch b.BlockedBy {
	case tooFewSessions:
		return fmt.Sprintf("Not rolled back yet: graded sessions that version %s still needs: %d.", current, b.Needs)
	case release.AlreadyRolledBack:
		return fmt.Sprintf("Not rolled back: version %s was rolled back before, and somebody made it current again.", current)
	case release.NoGoodVersion:
		return "Not rolled back: " + noGoodVersion
	}
	if b.Version != "" {
		return fmt.Sprintf("Version %s was rolled back at %s.", b.Version, b.At.UTC().Format("2006-01-02 15:04 UTC"))
	}
	return ""
}

// Why says why nothing was rolled back, on a page.
func (b Outcome) Why() string {
	switch b.BlockedBy {
	case tooFewSessions:
		return fmt.Sprintf("Not rolled back yet: graded sessions that the current version still needs: %d.", b.Needs)
	case release.AlreadyRolledBack:
		return "Not rolled back: the current version was rolled back before, and somebody made it current again."
	case release.NoGoodVersion:
		return "Not rolled back: " + noGoodVersion
	}
	return ""
}

const noGoodVersion = "no earlier version that was current is left that is not rolled back, withdrawn or below the threshold."

// revert takes the current version back if it breaches the rule by its own sessions.
// That happens in every evaluation of a rule that fires, once for each version: the
// version may have had too few sessions when the rule began to fire, or be newer. The
// rollback commits with the event, whatever crashes. It returns what became of it,
// known if that did not change.
func (e *evaluation) revert(
	ctx context.Context, r Rule, skill figures, v verdict, known Outcome,
) (Outcome, *release.Result, error) {
	threshold, compares := r.passRateLimit(skill)
	own, sessions := v, int64(skill.evidence.Sessions)
	if r.Sensitivity != Sequential {
		if sessions = skill.current.GradedSessions; r.Type == PassRateBelow {
			own = r.evaluateRate(skill.current.PassRate, sessions, threshold)
		}
	}
	unblocked := known
	if known.BlockedBy != "" {
		unblocked = Outcome{}
	}
	switch {
	case skill.lineage.CurrentID == "":
		return Outcome{BlockedBy: release.NoGoodVersion}, nil, nil // it has no entry, or one without a current version
	case !compares || own == insufficient && sessions >= minGraded:
		return unblocked, nil, nil
	case own == insufficient && known.Version != "" && !skill.lineage.Since.After(known.At):
		return known, nil, nil // that is the version that was made current by the rollback
	case own == insufficient:
		return Outcome{BlockedBy: tooFewSessions, Needs: minGraded - sessions}, nil, nil
	case own != breached || v != breached:
		return unblocked, nil, nil
	}
	done, err := e.service.Release.Revert(ctx, e.tx, release.Revert{
		OrgID: r.OrgID, SkillID: skill.ID, UserID: r.CreatedBy, VersionID: skill.lineage.CurrentID, Reason: "alert " + r.ID,
		Holds: func(v registry.Version) (bool, error) { return e.holds(ctx, r, skill.ID, v, threshold) },
	})
	switch {
	case err != nil || done == (release.Reverted{}):
		return unblocked, nil, err
	case done.Result == nil:
		return Outcome{BlockedBy: done.Blocked}, nil, nil
	}
	return Outcome{Version: done.Result.From.Version, At: done.Result.Entry.UpdatedAt}, done.Result, nil
}

// holds reports whether an earlier version is not below the threshold, by the rule's own
// means on the sessions of that version. Of too few sessions nothing is known against it.
func (e *evaluation) holds(ctx context.Context, r Rule, skillID string, v registry.Version, threshold float64) (bool, error) {
	if r.Sensitivity != Sequential {
		quality, err := e.service.Skills.Quality(ctx, e.tx, []string{v.ID})
		own := quality[v.ID]
		return r.evaluateRate(own.PassRate, own.GradedSessions, threshold) != breached, err
	}
	sessions, err := skills.GradedWithVersion(ctx, e.tx, skillID, v.ID, maxOwn)
	if err != nil || len(sessions) == 0 {
		return true, err
	}
	last := sessions[len(sessions)-1].At
	return gatherEvidence(sessions, threshold, registry.Lineage{}, 0, 0, last).verdict() != breached, nil
}
