package suites

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// An Import is a file to make a suite of.
type Import struct {
	Name     string  // of the suite; when empty, taken from the file
	SourceID *string // the cloud source that the suite is for
	Oracle   bool    // task packages run their solution before their verifier
	Partial  bool    // cases of `claude plugin eval` that cannot be run here are left out
	Filename string
	Content  io.ReaderAt
	Size     int64
}

// An ImportResult is the suite that was made from a file, and what was lost on the way.
type ImportResult struct {
	Suite Suite
	// Refused are the tasks of an archive that cannot be cases.
	Refused []Refusal
	// Warnings say where a case will run differently from what its author meant.
	Warnings []string
}

// A Refusal says why a task was not imported.
type Refusal = api.RefusedTask

const (
	// maxJSONImport bounds a JSON file, as the body of a request bounds the cases.
	maxJSONImport = 1 << 20
	// MaxImportedCases bounds the cases of an archive, which may unpack to much
	// more text than an answer should have.
	MaxImportedCases = 4 << 20
)

// Import makes a suite of a file: evals.json, trigger queries, an exported suite,
// or an archive of Harbor task folders or of cases of `claude plugin eval`. Tasks
// that cannot be run here are refused; it is an error if none is left.
func (s *Service) Import(ctx context.Context, c access.Caller, f Import) (out ImportResult, err error) {
	defer fault.Wrap(&err, "import eval suite")
	if utf8.RuneCountInString(f.Name) > MaxName {
		return out, fault.Invalid("name", "name must have at most %d characters", MaxName)
	}
	d, err := s.parseImport(ctx, c.OrgID, f)
	if err != nil {
		return out, err
	}
	size := 0
	for _, fields := range d.Cases {
		for _, value := range fields {
			size += len(value)
		}
	}
	if size > MaxImportedCases {
		return out, fault.New(fault.TooLarge, "The cases are over the limit of 4 MiB together; import fewer tasks at once")
	}
	d.SourceID = f.SourceID
	d.Name = cmp.Or(cleanName(f.Name), cleanName(d.Name), baseName(f.Filename), "Imported suite")
	suite, err := s.Create(ctx, c, d.NewSuite)
	return ImportResult{Suite: suite, Refused: d.refused, Warnings: d.warnings}, err
}

// MaxName bounds the name of a suite, in characters.
const MaxName = 200

// cleanName makes a text of a file fit to be the name of a suite.
func cleanName(name string) string {
	name = strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(name, ""), "\x00", ""))
	return text.TruncateRunes(name, MaxName)
}

// baseName is the name of a file without folder and extension, e.g. "tables" for
// "tasks/tables.tar.gz".
func baseName(file string) string {
	name := path.Base("/" + file)
	for _, extension := range []string{".tar.gz", path.Ext(name)} {
		if short, ok := strings.CutSuffix(name, extension); ok {
			return strings.Trim(cleanName(short), "/.")
		}
	}
	return ""
}

// A draft is a suite that was read from a file.
type draft struct {
	NewSuite
	refused  []Refusal
	warnings []string
}

// parseImport recognises archives by their magic numbers; everything else is JSON.
func (s *Service) parseImport(ctx context.Context, orgID string, f Import) (draft, error) {
	magic := make([]byte, 4)
	if _, err := f.Content.ReadAt(magic, 0); err != nil && !errors.Is(err, io.EOF) {
		return draft{}, err
	}
	isZip, isGzip := bytes.HasPrefix(magic, []byte("PK")), bytes.HasPrefix(magic, []byte{0x1f, 0x8b})
	if isZip || isGzip {
		return s.importArchive(ctx, orgID, f)
	}
	if f.Size > maxJSONImport {
		return draft{}, fault.New(fault.TooLarge, "The file is over the limit of 1 MiB for JSON")
	}
	raw, err := io.ReadAll(io.NewSectionReader(f.Content, 0, f.Size))
	if err != nil {
		return draft{}, err
	}
	return parseJSONFile(raw)
}
