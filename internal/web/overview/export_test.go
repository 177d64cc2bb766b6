package overview

// The queries of pages, whose plans and number are tested.
var (
	CurrentVersions = currentVersions
	DaysOfSkills    = daysOfSkills
	DaysOfOrg       = daysOfOrg
	TenuresOfSkills = tenuresOfSkills
	SourcesOfSkill  = sourcesOfSkill
	SuitesOfSources = suitesOfSources
	AlertsOfSkill   = alertsOfSkill
	EntryOfSkill    = entryOfSkill
	FiringOfOrg     = firingOfOrg
	WaitingOfOrg    = waitingOfOrg
	FailingOfOrg    = failingOfOrg
	PublishesSince  = publishesSince
	RollbacksSince  = rollbacksSince
	AlertsSince     = alertsSince
	SkillsSince     = skillsSince
)
