// Package repohost links repositories on a code host to registry entries: a
// push becomes a version, the commit shows what came of it, and a lost hook
// leaves nobody behind. It owns the tables repohost_settings,
// repohost_claims, repohost_installations, repohost_connections,
// repohost_deliveries and repohost_attempts.
package repohost

import (
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/glob"
	"github.com/whetstone-dev/whetstone/internal/host"
)

// A Mode says whether an organisation lets us write to its code host.
type Mode string

// The modes. ModePRs behaves as ModeChecks: no pull requests are opened.
const (
	ModeOff    Mode = "off"
	ModeChecks Mode = "checks"
	ModePRs    Mode = "checks_and_prs"
)

// An Installation is the access to one account of the code host that an
// organisation has bound.
type Installation struct {
	ID             string
	OrgID          string
	InstallationID int64
	AccountLogin   string
	AccountType    string
	// Suspended is what the organisation or the code host says.
	Suspended bool
	// Held says that the account is the organisation's. Without that nothing is
	// read through the installation.
	Held bool
	// Token is the account's own, for a host that knows tokens, or nil.
	Token     *string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Resting reports whether nothing is read through the installation.
func (i Installation) Resting() bool { return i.Suspended || !i.Held }

func (i Installation) host() host.Installation {
	at := host.Installation{ID: i.InstallationID, Account: i.AccountLogin}
	if i.Token != nil {
		at.Token = *i.Token
	}
	return at
}

// A Connection links one repository to one registry entry.
type Connection struct {
	ID               string
	OrgID            string
	EntryID          string
	EntryName        string
	InstallationID   int64
	RepoID           int64
	RepoFullName     string
	DefaultBranch    string
	SkillPath        string
	AutoPublish      bool
	WriteBackEnabled bool
	TagPattern       string
	CreatedBy        string
	CreatedAt        time.Time
	UpdatedAt        time.Time
	ConfiguredAt     time.Time
}

// repoKey is a repository's name as names are compared: hosts ignore case.
func repoKey(fullName string) string { return strings.ToLower(fullName) }

// statusContext is under which name a commit shows what came of it: 8
// characters of the last group of the id, the part that is random.
func (c Connection) statusContext() string {
	group := c.ID[strings.LastIndex(c.ID, "-")+1:]
	return "whetstone/publish/" + group[:min(8, len(group))]
}

// check looks at what a user may set, and cleans the path.
func (c *Connection) check() []fault.Issue {
	var issues []fault.Issue
	if host.CheckFullName(c.RepoFullName) != nil {
		issues = append(issues, fault.At("repo_full_name", "repo_full_name must be owner/repo"))
	}
	if !goodBranch(c.DefaultBranch) {
		issues = append(issues, fault.At("default_branch", "default_branch must be the name of a branch"))
	}
	path, err := host.CleanPath(c.SkillPath)
	if err != nil {
		issues = append(issues, fault.At("skill_path", "skill_path must be a folder inside the repository, with forward slashes and without .."))
	}
	c.SkillPath = path
	if _, err := c.tags(); err != nil {
		issues = append(issues, fault.At("tag_pattern", "%s", err))
	}
	return issues
}

const (
	maxTagPattern = 200
	// maxTag is the longest tag that is looked at: more than any file system
	// takes as the name of a ref.
	maxTag = 255
)

// tags returns the tags that are published, or an error that says what is
// wrong with the pattern. One that was stored before may be.
func (c Connection) tags() (tagSet, error) {
	set, err := glob.ParseSet(c.TagPattern)
	if err != nil || len(c.TagPattern) > maxTagPattern || strings.ContainsRune(c.TagPattern, 0) {
		return nil, fault.New(fault.Malformed, "tag_pattern must be a glob like v*, my-skill/v* or {a,b}/v* of at most %d characters,"+
			" whose braces stand for at most %d patterns", maxTagPattern, glob.MaxAlternatives).Because(err)
	}
	return tagSet(set), nil
}

// A tagSet is the tags that a connection publishes. In its pattern * does not
// stand for a slash, and ** does.
type tagSet glob.Set

func (t tagSet) has(tag string) bool { return len(tag) <= maxTag && glob.Set(t).Match(tag) }

// of lists those that a repository has, in the order of their versions.
func (t tagSet) of(refs host.Refs) []string {
	var names []string
	for name := range refs.Tags {
		if t.has(name) {
			names = append(names, name)
		}
	}
	return byVersion(names)
}

// goodBranch keeps out what git does not allow in the name of a branch.
func goodBranch(name string) bool {
	bad := name == "" || len(name) > 255 || strings.ContainsAny(name, " ~^:?*[\\\x7f") || strings.Contains(name, "..") ||
		strings.HasPrefix(name, "/") || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "refs/") ||
		strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".lock") || strings.Contains(name, "//") || strings.Contains(name, "@{")
	return !bad && !slices.ContainsFunc([]rune(name), func(r rune) bool { return r < ' ' })
}

// wants reports whether a push of the ref is to be published. Nothing is under
// a pattern that is not valid.
func (c Connection) wants(r ref) bool {
	if r.kind == branch {
		return r.name == c.DefaultBranch
	}
	tags, err := c.tags()
	return err == nil && c.AutoPublish && tags.has(r.name)
}

// A ref is what a push moves.
type ref struct {
	kind refKind
	name string
}

type refKind string

const (
	branch refKind = "branch"
	tag    refKind = "tag"
)

func (r ref) full() string {
	if r.kind == tag {
		return "refs/tags/" + r.name
	}
	return "refs/heads/" + r.name
}
