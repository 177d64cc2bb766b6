package api

// SchemaName is the name that the OpenAPI document has for a type of this package. The
// names are part of the API, since code generators make types of them: they are older than
// the package, and stay what they were when each type belonged to the package of a route.
func SchemaName(typ string) string { return schemas[typ] }

var schemas = map[string]string{
	"Gate":            "GatesGate",
	"GateCase":        "GatesCaseOutcome",
	"GateConfirmed":   "GatesConfirmed",
	"GateFloor":       "GatesFloor",
	"GateOverride":    "GatesOverride",
	"GatePullRequest": "GatesPullRequest",
	"GateScore":       "GatesScore",
	"GateSuite":       "GatesSuite",
	"GateSuiteChange": "GatesSuiteChange",
	"GateTrials":      "GatesTrials",
	"Owner":           "OwnerapiPerson",
	"Owners":          "OwnerapiOwners",
	"OwnersFile":      "OwnerapiFile",
	"Team":            "OwnerapiTeam",
}
