// Package sources stores the skills that authors are working on, uploaded or synced from
// a code host: their snapshots, and the lint reports on them. Suites test them before
// anything is published. It owns the tables cloud_sources, source_snapshots,
// source_reports and source_links.
package sources

import (
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// A Source is a skill under development, which its author uploads or keeps in a
// repository.
type Source struct {
	ID                string // without Prefix
	OrgID             string
	Label             string
	Type              Type
	SkillID           *string // skill whose telemetry it's linked to; nil if none
	Repo              *Repo   // set only for Repohost
	CurrentSnapshotID *string
	SuggestedAt       time.Time // watermark: when suggestions were last derived
	CreatedBy         string
	CreatedAt         time.Time
}

// A Type is where a source gets its files from.
type Type string

// The types.
const (
	Upload   Type = "upload"
	Repohost Type = "repohost"
	// Pull holds the files of a pull request while it's gated. It isn't listed, and is
	// deleted when the pull request is closed.
	Pull Type = "pull"
	// Candidate holds a changed skill while an improve run tries it. It isn't listed, and
	// is deleted when the run ends.
	Candidate Type = "candidate"
)

// A Repo locates a skill on a code host.
type Repo struct {
	InstallationID int64
	FullName       string // owner/repo
	DefaultBranch  string
	SkillPath      string // folder of the skill, e.g. "skills/pdf"; "." for the root
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
	Runnable    bool // lint found no errors
	CommitSHA   *string
	Ref         *string
	CreatedBy   string
	CreatedAt   time.Time
}

// A File is one file of a snapshot.
type File = api.SnapshotFile

// A Report is the result of linting a snapshot.
type Report struct {
	ID         string
	OrgID      string
	SnapshotID string
	Engine     string
	Found      lint.Report
	CreatedAt  time.Time
}

// Prefix begins source ids in the API, e.g. "src_0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70".
const Prefix = "src_"

// ParseID strips the prefix and returns the id in lower case. Anything that isn't a UUID
// is fault.NotFound.
func ParseID(s string) (string, error) {
	id, ok := parseUUID(strings.TrimPrefix(s, Prefix))
	if !ok {
		return "", fault.New(fault.NotFound, "Cloud source not found")
	}
	return id, nil
}

// parseUUID returns a UUID in lower case. It accepts only the hyphenated form, unlike
// uuid.Parse.
func parseUUID(s string) (string, bool) {
	id, err := uuid.Parse(s)
	return id.String(), err == nil && len(s) == len(id.String())
}

// Limits, in characters (maxLabel) or bytes.
const (
	maxLabel  = 200
	maxRepo   = 255 // characters of a repository with its owner
	maxBranch = 255
	maxPath   = 512
)

func validateLabel(label string) []fault.Issue {
	if n := utf8.RuneCountInString(label); strings.TrimSpace(label) == "" || n > maxLabel || !text.Valid(label) {
		return []fault.Issue{fault.At("label", "label must have 1 to %d characters", maxLabel)}
	}
	return nil
}

// validate returns all problems at once. It doesn't ask the code host: a sync does.
func (r *Repo) validate(subgroups bool) (issues []fault.Issue) {
	if r.InstallationID <= 0 {
		issues = append(issues, fault.At("installation_id", "installation_id is required and must be a positive integer"))
	}
	parts := strings.Split(r.FullName, "/")
	bad := func(name string) bool { return !validName(name) }
	if len(parts) < 2 || len(parts) > 2 && !subgroups || slices.ContainsFunc(parts, bad) || len(r.FullName) > maxRepo {
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

// validName reports whether name can be an account's or repository's.
func validName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsFunc(name, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	})
}

// validBranch rejects names that git rejects, and those that would mean something else in
// a command: an option, a revision range or a path.
func validBranch(ref string) bool {
	return ref != "" && len(ref) <= maxBranch && text.Valid(ref) && !strings.Contains(ref, "..") &&
		!strings.ContainsAny(ref, " ~^:?*[\\") && !strings.ContainsFunc(ref, unicode.IsControl) &&
		!strings.HasPrefix(ref, "-") && !strings.HasPrefix(ref, "/") && !strings.HasSuffix(ref, "/")
}

// validPath rejects path traversal: the path must be clean and inside the repository.
func validPath(p string) bool {
	return len(p) <= maxPath && text.Valid(p) && !strings.Contains(p, `\`) && !strings.ContainsFunc(p, unicode.IsControl) &&
		p == path.Clean(p) && !path.IsAbs(p) && p != ".." && !strings.HasPrefix(p, "../")
}
