package requirements

// For the tests of query plans.
var (
	ClosureOf      = closureOf
	RequirementsOf = requirementsOf
	FindAll        = find
	WithdrawnOf    = withdrawnOf
	VersionOf      = versionOf
	VersionsNamed  = versionsNamed
	DependentsOf   = dependentsOf
	NextLacking    = nextLacking
)
