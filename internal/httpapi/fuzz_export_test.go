package httpapi

// The small parsers.
var (
	ReplaceNUL    = replaceNUL
	UnmarshalJSON = unmarshalJSON
	IsText        = isText
	TextIssues    = textIssues
)
