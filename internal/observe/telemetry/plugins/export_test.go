package plugins

// What the test of query plans calls.
var (
	LockPendingLoads = lockPendingLoads
	LockPendingSkill = lockPendingSkill
	LoadsAfter       = loadsAfter
	SkillsOf         = skillsOf
)
