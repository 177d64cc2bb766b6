package skills

import "context"

// The queries, for the test of their query plans.
var (
	SkillByIDOrName       = skillByIDOrName
	CountSkills           = countSkills
	SkillsOfOrg           = skillsOfOrg
	PageOfSkills          = pageOfSkills
	Windows               = windows
	NamesOfOrg            = namesOfOrg
	GradesOfOrg           = gradesOfOrg
	DaysOf                = daysOf
	SkillsByName          = skillsByName
	AliasesOf             = aliasesOf
	ObservationsByID      = observationsByID
	ObservationsOfPlugins = observationsOfPlugins
	GradingsByID          = gradingsByID
	GradingsOfSessions    = gradingsOfSessions
	SessionDays           = sessionDays
	SessionGrades         = sessionGrades
	RecomputeSeen         = recomputeSeen
)

// GradedSessions returns the argument of GradingsOfSessions.
func GradedSessions(skillID string, sessions ...string) map[Session]bool {
	all := map[Session]bool{}
	for _, session := range sessions {
		all[Session{SkillID: skillID, Hash: session}] = true
	}
	return all
}

// Backfill runs the job.
func (s *Service) Backfill(ctx context.Context) error { return s.backfill(ctx) }

// What sessions activated.
var (
	LastActivated    = lastActivated
	ActivationsAfter = activationsAfter
)
