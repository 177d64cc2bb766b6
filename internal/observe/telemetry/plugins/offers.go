package plugins

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// deriveOffers is the job that pairs the loads of an organisation with the skills
// of their plugins. It is a job, since one skill that becomes known was offered in
// the sessions of many users.
//
// It misses no pair, without locks: of a load and a skill, the one that was
// committed last is pending until a job has seen it, and that job sees the other.
type deriveOffers struct {
	OrgID string `json:"org_id"`
}

// Kind names the job.
func (deriveOffers) Kind() string { return "telemetry.derive-offers" }

// Register makes the queue run the job.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args deriveOffers) error { return s.deriveOffers(ctx, args.OrgID) })
}

// Derive enqueues the job. It comes last in a transaction, so that no transaction
// that waits for its unique key holds counters that others wait for.
func (s *Service) Derive(ctx context.Context, tx *store.Tx, orgID string) error {
	return s.Jobs.Enqueue(ctx, tx, deriveOffers{OrgID: orgID}, jobs.Unique(orgID), jobs.For(orgID))
}

const (
	// maxSkills is how many skills of a plugin are offered by its loads, the first
	// by name.
	maxSkills = 500
	// loadsOfAllSkills and loadsOfOneSkill are how many loads a transaction pairs,
	// with all skills of their plugins or with one.
	loadsOfAllSkills, loadsOfOneSkill = 20, 1000
)

func (s *Service) deriveOffers(ctx context.Context, orgID string) (err error) {
	defer fault.Wrap(&err, "offers of plugins")
	for _, step := range []func(context.Context, *store.Tx, string) (bool, error){s.offerByLoads, s.offerBySkill} {
		for more := true; more; {
			err := s.DB.InTx(ctx, func(tx *store.Tx) (err error) {
				more, err = step(ctx, tx, orgID)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return s.mergeOwn(ctx, orgID)
}

// offerByLoads pairs some pending loads with the skills of their plugins. It
// reports whether there was any.
func (s *Service) offerByLoads(ctx context.Context, tx *store.Tx, orgID string) (more bool, err error) {
	loads, err := lockPendingLoads(ctx, tx, orgID, loadsOfAllSkills)
	if err != nil || len(loads) == 0 {
		return false, err
	}
	loads = ofOneUser(loads)
	var offers []skills.Observation
	known := map[string][]string{}
	for _, l := range loads {
		if _, ok := known[l.plugin]; !ok {
			if known[l.plugin], err = skillsOf(ctx, tx, orgID, l.plugin, maxSkills); err != nil {
				return false, err
			}
		}
		for _, name := range known[l.plugin] {
			offers = append(offers, l.offers(name)...)
		}
	}
	if err := s.Observe(ctx, tx, skills.Report{OrgID: orgID, UserID: loads[0].userID, Observations: offers}); err != nil {
		return false, err
	}
	return true, loadsDone(ctx, tx, loads)
}

// offerBySkill pairs a pending skill with some of the loads of its plugin. It
// reports whether there was any.
func (s *Service) offerBySkill(ctx context.Context, tx *store.Tx, orgID string) (more bool, err error) {
	name, after, err := lockPendingSkill(ctx, tx, orgID)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	loads, err := loadsAfter(ctx, tx, orgID, pluginOf(name), after, loadsOfOneSkill)
	if err != nil {
		return false, err
	}
	if len(loads) == 0 {
		return true, skillDone(ctx, tx, orgID, name)
	}
	loads = ofOneUser(loads)
	var offers []skills.Observation
	for _, l := range loads {
		offers = append(offers, l.offers(name)...)
	}
	if err := s.Observe(ctx, tx, skills.Report{OrgID: orgID, UserID: loads[0].userID, Observations: offers}); err != nil {
		return false, err
	}
	return true, moveSkill(ctx, tx, orgID, name, loads[len(loads)-1].id)
}

// ofOneUser returns the loads of the first user. A transaction observes one user
// only: it must not wait for another while it holds counters.
func ofOneUser(loads []load) []load {
	for i, l := range loads {
		if l.userID != loads[0].userID {
			return loads[:i]
		}
	}
	return loads
}

// offers returns the observations that the session was offered a skill, at the
// first and the last time.
func (l load) offers(skill string) []skills.Observation {
	offer := func(at time.Time) skills.Observation {
		return skills.Observation{SkillName: skill, SessionHash: l.sessionHash, Offered: true, At: at, NormalizedAt: at}
	}
	if l.firstAt.Equal(l.lastAt) {
		return []skills.Observation{offer(l.firstAt)}
	}
	return []skills.Observation{offer(l.firstAt), offer(l.lastAt)}
}
