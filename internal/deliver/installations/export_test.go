package installations

// The queries, for the test that looks at how the databases run them.
var (
	InstallationsOfEntry = installationsOfEntry
	InstallationsOfUser  = installationsOfUser
	RecordsOfUser        = recordsOfUser
	RecordedHashes       = recordedHashes
	LastChanges          = lastChanges
)
