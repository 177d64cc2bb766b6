package sources_test

import "github.com/whetstone-dev/whetstone/internal/sources/sourcestest"

// Short names for the helpers of every test.
type (
	answer = sourcestest.Answer
	object = sourcestest.Object
	part   = sourcestest.Part
)

const (
	sourcesPath = sourcestest.SourcesPath
	skillText   = sourcestest.SkillText
)

var (
	at          = sourcestest.At
	text        = sourcestest.Text
	objects     = sourcestest.Objects
	wantKeys    = sourcestest.WantKeys
	decode      = sourcestest.Decode
	decision    = sourcestest.Decision
	sourcePath  = sourcestest.SourcePath
	field       = sourcestest.Field
	filePart    = sourcestest.FilePart
	archivePart = sourcestest.ArchivePart
	zipped      = sourcestest.Zipped
	tarGz       = sourcestest.TarGz
	noise       = sourcestest.Noise
)
