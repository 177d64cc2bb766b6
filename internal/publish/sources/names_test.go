package sources_test

import (
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources/sourcestest"
)

// Short names for the helpers of every test.
type (
	answer = apptest.Response
	object = apptest.Object
	part   = apptest.Part
)

const (
	sourcesPath = sourcestest.SourcesPath
	skillText   = sourcestest.SkillText
)

var (
	at          = apptest.At
	text        = apptest.Text
	objects     = apptest.List
	wantKeys    = apptest.WantKeys
	decision    = sourcestest.Decision
	sourcePath  = sourcestest.SourcePath
	field       = sourcestest.Field
	filePart    = sourcestest.FilePart
	archivePart = sourcestest.ArchivePart
	zipped      = sourcestest.Zipped
	tarGz       = sourcestest.TarGz
	noise       = sourcestest.Noise
)
