package grades

import (
	"cmp"
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// A Verdict is what a person or a producer says about a session.
type Verdict struct {
	SessionID string // as the agent calls it
	Skill     string // id or name of one that the session used
	Passed    bool
	Reason    string // may be empty
	// Basis is basis.Pushed for the verdict of a producer, such as an agent; "" means
	// that of a person.
	Basis basis.Basis
}

// MaxReason is how many bytes a reason may have.
const MaxReason = 2000

// Check refuses a reason that cannot be stored.
func (v Verdict) Check() error {
	if !text.Valid(v.Reason) || len(v.Reason) > MaxReason {
		return fault.Invalid("reason", "reason must be text of at most %d bytes", MaxReason)
	}
	return nil
}

// Grade stores a grade of a session, in place of an earlier one of the same person,
// basis and skill. It returns the grade and the name of the skill.
func (s *Service) Grade(ctx context.Context, c access.Caller, v Verdict) (_ sessions.Grade, skill string, err error) {
	defer fault.Wrap(&err, "grade session")
	if err := v.Check(); err != nil {
		return sessions.Grade{}, "", err
	}
	of, err := s.Sessions.Find(ctx, c, v.SessionID)
	if err != nil {
		return sessions.Grade{}, "", err
	}
	used, err := usedSkill(of, v.Skill)
	if err != nil {
		return sessions.Grade{}, "", err
	}
	v.Basis = cmp.Or(v.Basis, basis.Person)
	g := grade{
		id:    gradeID(c.OrgID, c.UserID, v.Basis, of.ID, used.SkillID),
		orgID: c.OrgID, userID: of.UserID, sessionHash: of.ID, skillID: used.SkillID, skillName: used.Name,
		basis: v.Basis, sessionAt: of.LastAt, passed: v.Passed, gradedBy: &c.UserID, evidence: []evidence{},
	}
	if g.passed {
		g.passRate = billion
	}
	if reason := text.Clean(v.Reason); reason != "" {
		g.reason = &reason
	}
	g.failures = g.reasons()
	err = s.DB.InTx(ctx, func(tx *store.Tx) (err error) {
		if g.at, err = lockedNow(ctx, tx, g.userID, g.id); err != nil {
			return err
		}
		if err := s.record(ctx, tx, g); err != nil {
			return err
		}
		err = audit.Record(ctx, tx, audit.Entry{
			OrgID: c.OrgID, Action: "grades.session.grade",
			Target: audit.Target{Kind: "session", ID: of.SessionID, Name: of.SessionID},
			Detail: audit.Detail{"skill": used.Name, "passed": v.Passed},
		})
		if err != nil || g.passed || g.reason == nil {
			return err
		}
		return s.enqueueLabels(ctx, tx, c.OrgID, g.skillID)
	})
	out := sessions.Grade{ID: g.id, SkillID: g.skillID, PassRate: g.passRate, Basis: g.basis, At: g.at}
	g.explain(&out)
	return out, used.Name, err
}

// usedSkill returns a skill of a session that can be graded.
func usedSkill(of sessions.Session, idOrName string) (sessions.Skill, error) {
	for _, k := range of.Skills {
		if (k.SkillID == idOrName || k.Name == idOrName) && Gradable(k) {
			return k, nil
		}
	}
	return sessions.Skill{}, fault.Invalid("skill", "skill must be one that the session used")
}

// Gradable reports whether people can grade a session for a skill: the session used
// it, or was graded for it.
func Gradable(k sessions.Skill) bool { return k.Activated || k.PassRate != nil }
