package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// Upload is the multipart form of create and push: a part metadata that
// holds JSON, and a part archive.
type Upload struct {
	RawBody multipart.Form
}

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

const maxMetadata = 1 << 20

// publication reads the form. The caller calls done when the archive was read.
func (in Upload) publication(c access.Caller) (p Publication, done func(), err error) {
	m, err := in.metadata()
	if err != nil {
		return p, nil, err
	}
	files := in.RawBody.File["archive"]
	if len(files) != 1 {
		return p, nil, fault.Invalid("archive", "archive must be one file part: the tar.gz of the skill folder")
	}
	archive, err := files[0].Open()
	if err != nil {
		return p, nil, err
	}
	p = Publication{
		OrgID: c.OrgID, UserID: c.UserID, Name: m.Name, Type: m.EntryType, Description: m.Description,
		Visibility: m.Visibility, EntryRepo: m.SourceRepo, Version: m.Version, ChangeSummary: m.ChangeSummary,
		Source: FromCLI, SourceRepo: m.SourceRepo, ContentHash: strings.ToLower(m.ContentHash), Manifest: m.FileManifest,
		Archive: archive, Size: files[0].Size,
	}
	return p, func() { _ = archive.Close() }, nil
}

// metadata reads the part, which some clients send as a field and some as a file.
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
	values, files := in.RawBody.Value["metadata"], in.RawBody.File["metadata"]
	if len(values)+len(files) != 1 {
		return nil, fault.Invalid("metadata", "metadata is required: one part that holds JSON")
	}
	if len(values) == 1 {
		return []byte(values[0]), checkMetadataSize(int64(len(values[0])))
	}
	if err := checkMetadataSize(files[0].Size); err != nil {
		return nil, err
	}
	file, err := files[0].Open()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

func checkMetadataSize(size int64) error {
	if size > maxMetadata {
		return fault.New(fault.TooLarge, "The metadata is over the limit of 1 MiB")
	}
	return nil
}
