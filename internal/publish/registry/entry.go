// Package registry keeps an organisation's skills as entries with immutable
// versions. It owns the tables registry_entries, registry_versions, registry_rollbacks, registry_currents,
// registry_changes and registry_names, and by treehash registry_tree_hashes and registry_tree_backfill.
package registry

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/gateapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// An Entry is one skill, or another thing of a Type, under a name that is unique in its organisation.
type Entry struct {
	ID                string
	OrgID             string
	Name              string
	Type              Type
	Description       string // that of its current version
	Visibility        Visibility
	SourceRepo        *string // owner/repo it is sourced from
	SkillID           *string // the skill it is measured as
	CurrentVersionID  string  // "" while no version is current: the first is a candidate, or all are withdrawn
	CurrentVersion    string
	CurrentHash       string
	InstallationCount int
	CreatedBy         string
	CreatedAt         time.Time
	UpdatedAt         time.Time
}

// A Version is one archive of an entry. It never changes.
type Version struct {
	ID            string
	OrgID         string // the entry's
	EntryID       string
	Version       string
	ContentHash   string  // SHA-256 of the archive as it was sent
	CanonicalHash *string // SHA-256 of the archive that discovery serves
	TreeDigest    string
	Size          int64
	Description   string // from its SKILL.md
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
	Apart            bool    // from a branch, or a tag below the current version: published, it does not become current
	PushedBy         string
	ChosenBy         *string // chose the branch or tags that it came from, beside PushedBy, who connected them
	PushedAt         time.Time

	commit, path string  // of the repository that it was read from; set only while it is published
	archiveKey   string  // of the archive in the bucket
	canonicalKey *string // of the archive with CanonicalHash; often the same
	skillText    []byte  // its SKILL.md, if that is small; set only while it is published
	treeHashes   []treehash.Hash
	requires     []requires.Requirement
	problems     []requires.Problem
	manifestSize int64 // bytes of its manifest in JSON, where that itself is left out
	gate         *gateapi.Gate
}

// A Rollback is the record of one rollback.
type Rollback struct {
	// Published is the version that the content of To was rolled forward as, if it was.
	Published *string
	From, To  string
	Reason    *string
	By        string
	At        time.Time
	UndoneAt  *time.Time // nil while it stands
}

// A Type is what an entry is.
type Type string

// TypeSkill is the type of an entry whose archive must hold a SKILL.md.
const TypeSkill Type = "skill"

func types() []Type { return []Type{TypeSkill, "agent", "command", "hook", "bundle"} }

// A Visibility says who may see an entry.
type Visibility string

// The visibilities.
const (
	Public   Visibility = "public"   // listed for all organisations
	Org      Visibility = "org"      // only for its organisation
	Unlisted Visibility = "unlisted" // readable with its id, or its organisation and name
)

func visibilities() []Visibility { return []Visibility{Public, Org, Unlisted} }

// A State says what may be done with a version.
type State string

// The states.
const (
	Candidate State = "candidate" // its gate has not let it become current
	Published State = "published"
	Withdrawn State = "withdrawn" // must not become current again
)

// A Source is how a version was published.
type Source string

// The sources.
const (
	FromCLI            Source = "cli"
	FromRepohost       Source = "repohost"
	FromRepohostDirect Source = "repohost-direct"
)

// Lengths in characters.
const (
	maxName        = 100
	maxVersion     = 128
	maxDescription = 4096
	maxSummary     = 10_000
)

// checkName refuses names that are unfit for a URL path, a terminal or a file.
func checkName(name string) []fault.Issue {
	if name == "" || utf8.RuneCountInString(name) > maxName {
		return []fault.Issue{fault.At("name", "name must have 1 to %d characters", maxName)}
	}
	if !printable(name) || strings.ContainsAny(name, `/\`) || strings.TrimSpace(name) != name {
		return []fault.Issue{fault.At("name", "name must be printable, without slashes and without spaces around it")}
	}
	return nil
}

func checkVersion(version string) []fault.Issue {
	if version == "" || utf8.RuneCountInString(version) > maxVersion || !printable(version) || strings.Contains(version, "/") {
		return []fault.Issue{fault.At("version", "version must be 1 to %d printable characters without /", maxVersion)}
	}
	return nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// CheckText refuses text that is too long, and NUL, which PostgreSQL does not store.
func CheckText(field, value string, limit int) []fault.Issue {
	if strings.ContainsRune(value, 0) {
		return []fault.Issue{fault.At(field, "%s must not contain NUL", field)}
	}
	if utf8.RuneCountInString(value) > limit {
		return []fault.Issue{fault.At(field, "%s must have at most %d characters", field, limit)}
	}
	return nil
}

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

// checkRepo accepts nil and e.g. "acme/skills".
func checkRepo(repo *string) []fault.Issue {
	if repo == nil {
		return nil
	}
	owner, name, ok := strings.Cut(*repo, "/")
	if !ok || owner == "" || name == "" || strings.Contains(name, "/") || len(*repo) > 200 || !printable(*repo) {
		return []fault.Issue{fault.At("source_repo", "source_repo must be owner/repo")}
	}
	return nil
}
