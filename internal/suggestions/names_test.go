package suggestions_test

import "github.com/whetstone-dev/whetstone/internal/sources/sourcestest"

// Short names for the helpers of every test.
type (
	answer = sourcestest.Answer
	client = sourcestest.Client
	object = sourcestest.Object
)

var (
	at         = sourcestest.At
	text       = sourcestest.Text
	objects    = sourcestest.Objects
	wantKeys   = sourcestest.WantKeys
	decision   = sourcestest.Decision
	sourcePath = sourcestest.SourcePath
)
