package improve

// What runs need to know of a case.
var (
	CaseAsked       = caseAsked
	CaseCalls       = caseCalls
	CaseDigest      = caseDigest
	CaseExpectation = caseExpectation
	CaseGroup       = caseGroup
	CaseTexts       = caseTexts
)
