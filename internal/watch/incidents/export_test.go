package incidents

// The queries, for the test that looks at how the databases run them.
var (
	ListIncidents = listIncidents
	Unfinished    = unfinished
	OwnIncident   = ownIncident
)
