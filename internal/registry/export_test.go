package registry

// The queries, for the test that looks at how the databases run them.
var (
	ListEntries          = listEntries
	VersionsOfEntry      = versionsOfEntry
	VersionBefore        = versionBefore
	RollbacksOfEntry     = rollbacksOfEntry
	LatestVersions       = latestVersions
	KnownVersions        = knownVersions
	InstallationsOfEntry = installationsOfEntry
	InstallationsOfUser  = installationsOfUser
	RecordsOfUser        = recordsOfUser
	SkillsOn             = skillsOn
)

// Shelf is the part of the registry that an index of discovery shows.
func Shelf(orgName string, private bool) shelf { return shelf{orgName, private} }
