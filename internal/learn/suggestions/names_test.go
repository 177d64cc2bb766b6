package suggestions_test

import (
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources/sourcestest"
)

// Short names for the helpers of every test.
type (
	answer = apptest.Response
	client = sourcestest.Client
	object = apptest.Object
)

var (
	at         = apptest.At
	text       = apptest.Text
	objects    = apptest.List
	wantKeys   = apptest.WantKeys
	decision   = sourcestest.Decision
	sourcePath = sourcestest.SourcePath
)
