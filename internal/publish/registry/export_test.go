package registry

import (
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// The queries, for the test that looks at how the databases run them.
var (
	ListEntries      = listEntries
	VersionsAfter    = versionsAfter
	ManifestTexts    = manifestTexts
	VersionBefore    = versionBefore
	RollbacksOfEntry = rollbacksOfEntry
	LatestVersions   = latestVersions
	KnownVersions    = knownVersions
	CurrentSince     = currentSince
	SkillsNamed      = skillsNamed
	EachOnShelf      = eachOnShelf
	ReferredKeys     = referredKeys
)

// CheckMetadata reads and checks the metadata of a publication.
func CheckMetadata(form httpapi.Form) ([]fault.Issue, error) {
	m, err := Upload{form}.metadata()
	if err != nil {
		return nil, err
	}
	p := Publication{
		Name: m.Name, Type: m.EntryType, Description: m.Description, Visibility: m.Visibility, EntryRepo: m.SourceRepo,
		Version: m.Version, ChangeSummary: m.ChangeSummary, SourceRepo: m.SourceRepo, ContentHash: m.ContentHash,
		Manifest: m.FileManifest,
	}
	return slices.Concat(p.checkEntry(), p.checkPush()), nil
}
