package report

// What the test of query plans calls.
var (
	EachEntry    = eachEntry
	CountsOfOrg  = countsOfOrg
	NewestRuns   = newestRuns
	ChoicesOf    = choicesOf
	RequestsOf   = requestsOf
	PairsOf      = pairsOf
	SessionsOf   = sessionsOf
	CatalogPairs = catalogPairs
	RecallOf     = recallOf
)

// An Entry is what eachEntry reads.
type Entry = entry
