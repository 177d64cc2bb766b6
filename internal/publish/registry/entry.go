// Package registry stores an organisation's skills as entries with immutable versions,
// and serves their archives and files. It owns the tables registry_entries,
// registry_versions, registry_rollbacks, registry_currents, registry_changes and
// registry_names; its packages treehash and requirements own registry_tree_hashes,
// registry_tree_backfill, registry_requirements and registry_requirement_backfill.
package registry

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// An Entry is a skill, or another kind of thing (see Type), with a name that is unique in
// its organisation.
type Entry struct {
	ID                string
	OrgID             string
	Name              string
	Type              Type
	Description       string // of the current version
	Visibility        Visibility
	SourceRepo        *string // e.g. "acme/skills"
	SkillID           *string // the skill that its use is counted for; nil if the name can't be a skill's
	CurrentVersionID  string  // "" while no version is current: the first is a candidate, or all are withdrawn
	CurrentVersion    string
	CurrentHash       string
	InstallationCount int
	CreatedBy         string
	CreatedAt         time.Time
	UpdatedAt         time.Time
}

// A Version is one archive of an entry. Its content never changes, only its state.
type Version struct {
	ID string
	// OrgID is the organisation of the entry; the table doesn't store it per version.
	OrgID         string // the entry's
	EntryID       string
	Version       string
	ContentHash   string  // SHA-256 of the archive as pushed
	CanonicalHash *string // SHA-256 of the archive that discovery serves; nil if it serves none
	// TreeDigest hashes the files alone: equal files have equal digests however they were
	// packed.
	TreeDigest  string
	Size        int64
	Description string // from its SKILL.md
	// EntryDescription is what the entry shows while the version is current.
	EntryDescription string
	Manifest         []skillpkg.ManifestEntry
	ChangeSummary    *string
	Source           Source
	SourceRef        *string
	SourceRepo       *string
	RolledBack       bool
	State            State
	GateID           *string // its newest gate
	WithdrawnReason  *string // nil unless it is withdrawn
	Apart            bool    // from a branch, or a tag older than the current version: published without becoming current
	PushedBy         string
	ChosenBy         *string // user who chose the branch or tags it came from; PushedBy is who connected the repository
	PushedAt         time.Time

	commit, path string  // of the repository it was read from; only set while publishing
	archiveKey   string  // key of the archive in the bucket
	canonicalKey *string // key of the archive with CanonicalHash; often the same as archiveKey
	skillText    []byte  // content of SKILL.md if small; only set while publishing
	treeHashes   []treehash.Hash
	requires     []requires.Requirement
	problems     []requires.Problem
	manifestSize int64 // size of the manifest as JSON; set instead of Manifest in lists
	gate         *api.Gate
}

// A Rollback is a record in an entry's rollback history.
type Rollback struct {
	// Published is the version that To's content was published as; nil unless rolled
	// forward.
	Published *string
	From, To  string
	Reason    *string
	By        string
	At        time.Time
	UndoneAt  *time.Time // nil unless it was undone
}

// A Type is the kind of thing that an entry holds.
type Type string

// TypeSkill is the only type whose archive must contain a SKILL.md.
const TypeSkill Type = "skill"

// types are the valid types of entries. Only TypeSkill has a meaning for the registry.
func types() []Type { return []Type{TypeSkill, "agent", "command", "hook", "bundle"} }

// A Visibility decides which organisations may see an entry.
type Visibility string

// The visibilities.
const (
	Public   Visibility = "public"   // listed for everyone
	Org      Visibility = "org"      // only its own organisation
	Unlisted Visibility = "unlisted" // for those who know its id, or organisation and name
)

func visibilities() []Visibility { return []Visibility{Public, Org, Unlisted} }

// A State is where a version is in its life.
type State string

// The states.
const (
	Candidate State = "candidate" // waits for its gate; can't be current
	Published State = "published"
	Withdrawn State = "withdrawn" // must not be used or become current again, unless restored
)

// A Source is the way a version was published.
type Source string

// The sources.
const (
	FromCLI            Source = "cli"      // pushed with an API key
	FromRepohost       Source = "repohost" // synced from a connected repository
	FromRepohostDirect Source = "repohost-direct"
)

// Limits, in characters.
const (
	maxName        = 100
	maxVersion     = 128
	maxDescription = 4096
	maxSummary     = 10_000
)

// checkName refuses names that would break a URL path, a terminal or a file name.
func checkName(name string) []fault.Issue {
	if name == "" || utf8.RuneCountInString(name) > maxName {
		return []fault.Issue{fault.At("name", "name must have 1 to %d characters", maxName)}
	}
	if !printable(name) || strings.ContainsAny(name, `/\`) || strings.TrimSpace(name) != name {
		return []fault.Issue{fault.At("name", "name must be printable, without slashes and without spaces around it")}
	}
	return nil
}

// checkVersion doesn't require SemVer, which not everybody uses; it only keeps names
// usable in a path.
func checkVersion(version string) []fault.Issue {
	if version == "" || utf8.RuneCountInString(version) > maxVersion || !printable(version) || strings.Contains(version, "/") {
		return []fault.Issue{fault.At("version", "version must be 1 to %d printable characters without /", maxVersion)}
	}
	return nil
}

// printable excludes white space other than the plain space, and invalid UTF-8.
func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// CheckText refuses text over a length, and NUL, which PostgreSQL can't store.
func CheckText(field, value string, limit int) []fault.Issue {
	if strings.ContainsRune(value, 0) {
		return []fault.Issue{fault.At(field, "%s must not contain NUL", field)}
	}
	if utf8.RuneCountInString(value) > limit {
		return []fault.Issue{fault.At(field, "%s must have at most %d characters", field, limit)}
	}
	return nil
}

// checkOneOf checks an enumeration, and lists the valid values in its message.
func checkOneOf[T ~string](field string, value T, allowed ...T) []fault.Issue {
	if slices.Contains(allowed, value) {
		return nil
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	return []fault.Issue{fault.At(field, "%s must be one of %s", field, strings.Join(words, ", "))}
}

// checkRepo accepts nil and "owner/repo", e.g. "acme/skills". On GitLab the owner may have
// several parts.
func checkRepo(repo *string) []fault.Issue {
	if repo == nil {
		return nil
	}
	parts := strings.Split(*repo, "/")
	if len(parts) < 2 || slices.Contains(parts, "") || len(*repo) > 255 || !printable(*repo) {
		return []fault.Issue{fault.At("source_repo", "source_repo must be owner/repo")}
	}
	return nil
}
