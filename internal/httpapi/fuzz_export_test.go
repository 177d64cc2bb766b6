package httpapi

// The small parsers.
var (
	ReplaceNUL    = replaceNUL
	UnmarshalJSON = unmarshalJSON
	TextIssues    = textIssues
)
