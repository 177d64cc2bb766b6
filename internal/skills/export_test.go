package skills

// The queries, for the test that looks at how the databases run them.
var (
	SkillByIDOrName    = skillByIDOrName
	CountSkills        = countSkills
	SkillsOfOrg        = skillsOfOrg
	Windows            = windows
	NamesOfOrg         = namesOfOrg
	GradesOfOrg        = gradesOfOrg
	DaysOf             = daysOf
	IDsByName          = idsByName
	AliasesOf          = aliasesOf
	ObservationsByID   = observationsByID
	GradingsByID       = gradingsByID
	GradingsOfSessions = gradingsOfSessions
	SessionDays        = sessionDays
	SessionGrades      = sessionGrades
	RecomputeSeen      = recomputeSeen
)

// GradedSessions names sessions, for GradingsOfSessions.
func GradedSessions(skillID string, sessions ...string) map[gradedSession]bool {
	all := map[gradedSession]bool{}
	for _, session := range sessions {
		all[gradedSession{skillID, session}] = true
	}
	return all
}
