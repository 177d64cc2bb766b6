// Package sources keeps the skills that authors upload or sync from a code
// host: their snapshots, and the validation reports on them. It owns the tables
// cloud_sources, source_snapshots and source_reports.
package sources

import (
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// A Source is a skill under development, as its author uploads it or keeps it
// in a repository.
type Source struct {
	ID                string // without the prefix
	OrgID             string
	Label             string
	Type              Type
	SkillID           *string // the skill whose telemetry it is linked to
	Repo              *Repo   // nil for an upload source
	CurrentSnapshotID *string
	SuggestedAt       time.Time // watermark: when the last derivation of suggestions began
	CreatedBy         string
	CreatedAt         time.Time
}

// A Type is how a source gets its files.
type Type string

// The types.
const (
	Upload   Type = "upload"
	Repohost Type = "repohost"
	// Pull holds the files of a pull request while they are gated. It is in no
	// list, and goes when the pull request is closed.
	Pull Type = "pull"
	// Candidate holds a changed skill while an improve run tries it. It is in no
	// list, and goes when the run is over.
	Candidate Type = "candidate"
)

// A Repo locates a skill at a code host.
type Repo struct {
	InstallationID int64
	FullName       string // owner/repo
	DefaultBranch  string
	SkillPath      string // of the skill's folder, e.g. "skills/pdf"; "." is the root
}

// A Snapshot is an immutable copy of a source's files.
type Snapshot struct {
	ID          string
	OrgID       string
	SourceID    string
	ContentHash string // SHA-256 of the canonical archive, in hex
	TotalBytes  int64
	Files       []File
	SkillName   string
	Description string
	Runnable    bool // its validation did not fail
	CommitSHA   *string
	Ref         *string
	CreatedBy   string
	CreatedAt   time.Time
}

// A File is one file of a snapshot.
type File struct {
	Path   string `json:"path" example:"scripts/run.sh"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// A Report is the result of validating a snapshot.
type Report struct {
	ID         string
	OrgID      string
	SnapshotID string
	Engine     string
	Found      lint.Report
	CreatedAt  time.Time
}

// Prefix begins the ids of sources in the API, e.g.
// "src_0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70".
const Prefix = "src_"

// ParseID returns the id of a source without its prefix, in lower case. A text
// that cannot be an id is a fault.NotFound.
func ParseID(s string) (string, error) {
	id, ok := parseUUID(strings.TrimPrefix(s, Prefix))
	if !ok {
		return "", fault.New(fault.NotFound, "Cloud source not found")
	}
	return id, nil
}

// parseUUID returns a UUID in lower case. It accepts only the form with hyphens,
// not the others that uuid.Parse reads.
func parseUUID(s string) (string, bool) {
	id, err := uuid.Parse(s)
	return id.String(), err == nil && len(s) == len(id.String())
}

// Limits of fields, in characters (maxLabel) or bytes.
const (
	maxLabel  = 200
	maxBranch = 255
	maxPath   = 512
)

func validateLabel(label string) []fault.Issue {
	if n := utf8.RuneCountInString(label); strings.TrimSpace(label) == "" || n > maxLabel || !text.Valid(label) {
		return []fault.Issue{fault.At("label", "label must have 1 to %d characters", maxLabel)}
	}
	return nil
}

func (r *Repo) validate() (issues []fault.Issue) {
	if r.InstallationID <= 0 {
		issues = append(issues, fault.At("installation_id", "installation_id is required and must be a positive integer"))
	}
	owner, name, ok := strings.Cut(r.FullName, "/")
	if !ok || !validName(owner) || !validName(name) || len(r.FullName) > maxLabel {
		issues = append(issues, fault.At("repo_full_name", "repo_full_name is required and must be owner/repo"))
	}
	if !validBranch(r.DefaultBranch) {
		issues = append(issues, fault.At("default_branch", "default_branch must be the name of a branch"))
	}
	if !validPath(r.SkillPath) {
		issues = append(issues, fault.At("skill_path", "skill_path must be a relative path inside the repository"))
	}
	return issues
}

// validName reports whether a text can be the name of an account or repository.
func validName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsFunc(name, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	})
}

// validBranch rejects names that git rejects, too, and that would mean something
// else on the way there: an option, a revision range or another path.
func validBranch(ref string) bool {
	return ref != "" && len(ref) <= maxBranch && text.Valid(ref) && !strings.Contains(ref, "..") &&
		!strings.ContainsAny(ref, " ~^:?*[\\") && !strings.ContainsFunc(ref, unicode.IsControl) &&
		!strings.HasPrefix(ref, "-") && !strings.HasPrefix(ref, "/") && !strings.HasSuffix(ref, "/")
}

// validPath rejects path traversal: the path must be clean and stay inside the
// repository.
func validPath(p string) bool {
	return len(p) <= maxPath && text.Valid(p) && !strings.Contains(p, `\`) && !strings.ContainsFunc(p, unicode.IsControl) &&
		p == path.Clean(p) && !path.IsAbs(p) && p != ".." && !strings.HasPrefix(p, "../")
}
