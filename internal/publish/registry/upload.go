package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// Upload is the multipart form of create and push: a part "metadata" with JSON, and a
// part "archive".
type Upload struct {
	httpapi.Form
}

// metadata is the JSON of the form. Fields beyond those of the contract are ignored.
type metadata struct {
	Name          string                   `json:"name"`
	EntryType     Type                     `json:"entry_type"`
	Description   *string                  `json:"description"`
	Version       string                   `json:"version"`
	ChangeSummary *string                  `json:"change_summary"`
	FileManifest  []skillpkg.ManifestEntry `json:"file_manifest"`
	ContentHash   string                   `json:"content_hash"`
	Visibility    Visibility               `json:"visibility"`
	SourceRepo    *string                  `json:"source_repo"`
}

// Manifests make up most of it: they list up to thousands of files.
const maxMetadata = 1 << 20

// publication converts the form, and fills in the caller.
func (in Upload) publication(c access.Caller) (p Publication, err error) {
	m, err := in.metadata()
	if err != nil {
		return p, err
	}
	archives := in.Files["archive"]
	if len(archives) != 1 {
		return p, fault.Invalid("archive", "archive must be one file part: the tar.gz of the skill folder")
	}
	return Publication{
		OrgID: c.OrgID, UserID: c.UserID, Name: m.Name, Type: m.EntryType, Description: m.Description,
		Visibility: m.Visibility, EntryRepo: m.SourceRepo, Version: m.Version, ChangeSummary: m.ChangeSummary,
		Source: FromCLI, SourceRepo: m.SourceRepo, ContentHash: strings.ToLower(m.ContentHash), Manifest: m.FileManifest,
		Archive: archives[0].Content, Size: archives[0].Content.Size(),
	}, nil
}

// metadata decodes the JSON part, which some clients send as a field and others as a
// file. Errors name the field, as the framework's do for JSON bodies.
func (in Upload) metadata() (m metadata, err error) {
	raw, err := in.metadataText()
	if err != nil {
		return m, err
	}
	m = metadata{EntryType: TypeSkill, Visibility: Org}
	err = json.Unmarshal(raw, &m)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := cmp.Or(wrong.Field, "metadata")
		return m, fault.Invalid(field, "%s: unexpected %s", field, wrong.Value)
	}
	if err != nil {
		return m, fault.Invalid("metadata", "metadata is not valid JSON: %s", err)
	}
	return m, nil
}

func (in Upload) metadataText() ([]byte, error) {
	values, files := in.Values["metadata"], in.Files["metadata"]
	if len(values)+len(files) != 1 {
		return nil, fault.Invalid("metadata", "metadata is required: one part that holds JSON")
	}
	tooLarge := fault.New(fault.TooLarge, "The metadata is over the limit of 1 MiB")
	if len(values) == 1 {
		if len(values[0]) > maxMetadata {
			return nil, tooLarge
		}
		return []byte(values[0]), nil
	}
	if files[0].Content.Size() > maxMetadata {
		return nil, tooLarge
	}
	return io.ReadAll(files[0].Content)
}
