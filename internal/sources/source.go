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

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/lint"
)

// A Source is where a skill's author keeps the skill.
type Source struct {
	ID                string // without the prefix
	OrgID             string
	Label             string
	Type              Type
	SkillID           *string // the skill it is measured as
	Repo              *Repo   // of a repohost source
	CurrentSnapshotID *string
	SuggestedAt       time.Time // as of when the suggestions are
	CreatedBy         string
	CreatedAt         time.Time
}

// A Type is the road by which a source's files come.
type Type string

// The types.
const (
	Upload   Type = "upload"
	Repohost Type = "repohost"
)

// A Repo is the place of a skill at a code host.
type Repo struct {
	InstallationID int64
	FullName       string // owner/repo
	DefaultBranch  string
	SkillPath      string
}

// A Snapshot is the files of a source at one time. It never changes.
type Snapshot struct {
	ID          string
	OrgID       string
	SourceID    string
	ContentHash string // SHA-256 of the canonical archive
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

// A Report is what an engine found wrong with a snapshot.
type Report struct {
	ID         string
	OrgID      string
	SnapshotID string
	Engine     string
	Found      lint.Report
	CreatedAt  time.Time
}

// Prefix begins the ids of sources wherever the API shows them.
const Prefix = "src_"

// ParseID returns the bare form of a source's id, which may come with or
// without its prefix. What cannot be an id is a source that was not found.
func ParseID(text string) (string, error) {
	id, ok := parseUUID(strings.TrimPrefix(text, Prefix))
	if !ok {
		return "", notFound()
	}
	return id, nil
}

func notFound() error { return fault.New(fault.NotFound, "Cloud source not found") }

// parseUUID accepts the usual form only, in either case.
func parseUUID(text string) (string, bool) {
	id, err := uuid.Parse(text)
	return id.String(), err == nil && len(text) == len(id.String())
}

// Lengths in characters.
const (
	maxLabel  = 200
	maxBranch = 255
	maxPath   = 512
)

// checkLabel wants something that a person can read.
func checkLabel(label string) []fault.Issue {
	if n := utf8.RuneCountInString(label); strings.TrimSpace(label) == "" || n > maxLabel || !storable(label) {
		return []fault.Issue{fault.At("label", "label must have 1 to %d characters", maxLabel)}
	}
	return nil
}

// storable keeps what the databases do not keep out of them.
func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// check tells what is wrong with the place, field by field.
func (r *Repo) check() (issues []fault.Issue) {
	if r.InstallationID <= 0 {
		issues = append(issues, fault.At("installation_id", "installation_id is required and must be a positive integer"))
	}
	owner, name, ok := strings.Cut(r.FullName, "/")
	if !ok || !plainName(owner) || !plainName(name) || len(r.FullName) > maxLabel {
		issues = append(issues, fault.At("repo_full_name", "repo_full_name is required and must be owner/repo"))
	}
	if !plainRef(r.DefaultBranch) {
		issues = append(issues, fault.At("default_branch", "default_branch must be the name of a branch"))
	}
	if !plainPath(r.SkillPath) {
		issues = append(issues, fault.At("skill_path", "skill_path must be a relative path inside the repository"))
	}
	return issues
}

func plainName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsFunc(name, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	})
}

// plainRef refuses what git refuses in the name of a branch, as far as it
// could mean something else on the way there.
func plainRef(ref string) bool {
	return ref != "" && len(ref) <= maxBranch && storable(ref) && !strings.Contains(ref, "..") &&
		!strings.ContainsAny(ref, " ~^:?*[\\") && !strings.ContainsFunc(ref, unicode.IsControl) &&
		!strings.HasPrefix(ref, "-") && !strings.HasPrefix(ref, "/") && !strings.HasSuffix(ref, "/")
}

func plainPath(p string) bool {
	return len(p) <= maxPath && storable(p) && !strings.Contains(p, `\`) && !strings.ContainsFunc(p, unicode.IsControl) &&
		p == path.Clean(p) && !path.IsAbs(p) && p != ".." && !strings.HasPrefix(p, "../")
}
