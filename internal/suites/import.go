package suites

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

// An Import is a file that shall become a suite.
type Import struct {
	Name     string  // of the suite; told from the file when empty
	SourceID *string // the cloud source that the suite is for
	Oracle   bool    // task packages run their solution before their verifier
	Filename string
	Content  io.ReaderAt
	Size     int64
}

// An ImportResult is what became of a file.
type ImportResult struct {
	Suite Suite
	// Refused are the tasks of an archive that cannot be cases.
	Refused []Refusal
	// Warnings say what a case will not find as its author meant it.
	Warnings []string
}

// A Refusal says why a task was not imported.
type Refusal struct {
	Task    string   `json:"task"`
	Reasons []string `json:"reasons" nullable:"false"`
}

// maxJSONImport is the largest JSON file, in bytes: what a suite's cases may
// have in a request.
const maxJSONImport = 1 << 20

// maxImportedCases is how many bytes the cases of a file may have together: an
// archive can hold more text than anybody wants in an answer.
const maxImportedCases = 4 << 20

func size(cases []Fields) (n int) {
	for _, f := range cases {
		for _, value := range f {
			n += len(value)
		}
	}
	return n
}

// Import makes a suite of a file: evals.json, trigger queries, a suite that was
// exported, or an archive of Harbor task folders. Tasks that cannot be run here
// are left out and named; it is an error if none is left.
func (s *Service) Import(ctx context.Context, c access.Caller, f Import) (out ImportResult, err error) {
	defer fault.Wrap(&err, "import eval suite")
	d, err := s.draft(ctx, c.OrgID, f)
	if err != nil {
		return out, err
	}
	if size(d.Cases) > maxImportedCases {
		return out, fault.New(fault.TooLarge, "The cases are over the limit of 4 MiB together; import fewer tasks at once")
	}
	d.SourceID = f.SourceID
	d.Name = cmp.Or(fitName(f.Name), fitName(d.Name), baseName(f.Filename), "Imported suite")
	suite, err := s.Create(ctx, c, d.NewSuite)
	return ImportResult{Suite: suite, Refused: d.refused, Warnings: d.warnings}, err
}

// maxName is how long a suite's name may be, in characters.
const maxName = 200

// fitName makes a name of what a file says.
func fitName(text string) string {
	text = strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", ""))
	if runes := []rune(text); len(runes) > maxName {
		text = string(runes[:maxName])
	}
	return text
}

// baseName is a file's name without folder and extension.
func baseName(file string) string {
	name := path.Base("/" + file)
	for _, extension := range []string{".tar.gz", path.Ext(name)} {
		if short, ok := strings.CutSuffix(name, extension); ok {
			return strings.Trim(fitName(short), "/.")
		}
	}
	return ""
}

// A draft is a file's suite before it is made.
type draft struct {
	NewSuite
	refused  []Refusal
	warnings []string
}

func (s *Service) draft(ctx context.Context, orgID string, f Import) (draft, error) {
	head := make([]byte, 4)
	if _, err := f.Content.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return draft{}, err
	}
	if bytes.HasPrefix(head, []byte("PK")) || bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		return s.draftTasks(ctx, orgID, f)
	}
	if f.Size > maxJSONImport {
		return draft{}, fault.New(fault.TooLarge, "The file is over the limit of 1 MiB for JSON")
	}
	raw, err := io.ReadAll(io.NewSectionReader(f.Content, 0, f.Size))
	if err != nil {
		return draft{}, err
	}
	return draftJSON(raw)
}
