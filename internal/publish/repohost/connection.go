// Package repohost connects repositories on a code host (GitHub, GitLab, Gitea, bare git) to
// registry entries: a push becomes a version, and the commit's status shows the outcome.
// Webhooks are stored before they are processed, and reconciliation finds what lost
// webhooks missed.
//
// It owns the tables repohost_settings, repohost_installations, repohost_connections,
// repohost_deliveries and repohost_attempts; its package claims owns repohost_claims.
package repohost

import (
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// A Mode is how much an organisation lets the server write to its code host (write-back):
// commit statuses and check runs, or pull requests as well.
type Mode string

// The modes. ModePRs includes ModeChecks.
const (
	ModeOff    Mode = "off"
	ModeChecks Mode = "checks"
	ModePRs    Mode = "checks_and_prs"
)

// Check validates the mode.
func (m Mode) Check() error {
	if !slices.Contains([]Mode{ModeOff, ModeChecks, ModePRs}, m) {
		return fault.Invalid("write_back_mode", "write_back_mode must be %s, %s or %s", ModeOff, ModeChecks, ModePRs)
	}
	return nil
}

// An Installation is an organisation's access to one account on the code host, e.g. a
// GitHub App installed for "acme".
type Installation struct {
	ID             string
	OrgID          string
	InstallationID int64 // issued by the code host
	AccountLogin   string
	AccountType    string // "User" or "Organization"
	// Suspended is set by the organisation or by a webhook of the code host.
	Suspended bool
	// Claimed: the organisation holds the claim on the account (see package claims).
	// Nothing is read through an installation without it.
	Claimed bool
	// Token is the account's own access token; nil to use the server's. It's sealed in
	// the database.
	Token     *string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Limits of an installation.
const (
	// MaxInstallationID is the largest integer that JavaScript represents exactly.
	MaxInstallationID = 1<<53 - 1
	MaxAccountLogin   = 255 // the full path of a group on GitLab; elsewhere at most 100
	MaxToken          = 500
)

// Check validates the fields a user can set. Whether the code host takes a token is
// checked by Service.Bind.
func (i Installation) Check(on host.Provider) error {
	if issues := i.issues(on); len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// issues returns all problems at once, for the API.
func (i Installation) issues(on host.Provider) (all []fault.Issue) {
	if i.InstallationID < 1 || i.InstallationID > MaxInstallationID {
		all = append(all, fault.At("installation_id", "installation_id must be a whole number from 1"))
	}
	if len(i.AccountLogin) > MaxAccountLogin || on.CheckAccountLogin(i.AccountLogin) != nil {
		all = append(all, fault.At("account_login", "account_login must be the name of an account on the code host"))
	}
	if i.AccountType != "User" && i.AccountType != "Organization" {
		all = append(all, fault.At("account_type", "account_type must be User or Organization"))
	}
	// Anything else can't be sent in an HTTP header.
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if i.Token != nil && (len(*i.Token) > MaxToken || strings.ContainsFunc(*i.Token, unprintable)) {
		all = append(all, fault.At("token", "token must be an access token of at most %d characters", MaxToken))
	}
	return all
}

// Inactive reports that nothing is read through the installation.
func (i Installation) Inactive() bool { return i.Suspended || !i.Claimed }

// host converts the installation for requests to the code host. Its token must be
// decrypted.
func (i Installation) host() host.Installation {
	at := host.Installation{ID: i.InstallationID, Account: i.AccountLogin}
	if i.Token != nil {
		at.Token = *i.Token
	}
	return at
}

// A Connection links one folder of a repository to one registry entry.
type Connection struct {
	ID               string
	OrgID            string
	EntryID          string
	EntryName        string
	InstallationID   int64
	RepoID           int64  // 0 where the host has no ids
	RepoFullName     string // e.g. "acme/skills"; on GitLab also with subgroups
	DefaultBranch    string // whose head is published
	SkillPath        string // folder in the repository, "." for its root
	AutoPublish      bool   // publish tags when they are pushed, not only on sync
	WriteBackEnabled bool
	TagPattern       string // glob of the tags that are published, e.g. "v*"
	// PublishUnchanged publishes pushes to the branch even if they don't change the
	// folder.
	PublishUnchanged bool
	// OpenIssues opens an issue in the repository when an alert rolls back a version that
	// came from it.
	OpenIssues bool
	// PullRequests selects the pull requests whose head is gated before the merge.
	PullRequests PullRequests
	// HostDefault is the repository's default branch as last reported by the code host;
	// "" if it hasn't been yet.
	HostDefault string
	// Codeowners: the repository's CODEOWNERS file names the owners of the entry.
	Codeowners bool
	CreatedBy  string
	// ChosenBy is the user who last changed repository, branch, path or tag pattern, at
	// ChosenAt. Versions that come from there count as theirs too, e.g. when others have
	// to approve.
	ChosenBy  string
	ChosenAt  time.Time
	CreatedAt time.Time
	UpdatedAt time.Time
	// ConfiguredAt is when a setting that decides what is published last changed. Commits
	// refused before that are tried again.
	ConfiguredAt time.Time
}

// PullRequests selects the pull requests that a connection gates. Gates cost money, and
// the head of a fork is untrusted content.
type PullRequests string

// Which pull requests are gated.
const (
	NoPulls  PullRequests = "off"
	OwnPulls PullRequests = "same_repository"
	AllPulls PullRequests = "all" // also of forks
)

// DefaultConnection has the defaults of a new connection. The API's schema states them
// too.
func DefaultConnection() Connection {
	return Connection{DefaultBranch: "main", SkillPath: ".", TagPattern: "v*", AutoPublish: true, PullRequests: OwnPulls}
}

// follow applies the name and default branch that the code host reports. The connection's
// branch changes only if it was the default branch before: a branch that a user chose
// stays.
func (c *Connection) follow(r host.EventRepository, oldDefault string) (changed bool) {
	if c.RepoID != 0 && r.ID != 0 && r.ID != c.RepoID {
		return false // a different repository has taken over the name
	}
	before := *c
	if r.FullName != "" { // which was checked for the code host
		c.RepoFullName = r.FullName
	}
	if publication.ValidBranch(r.DefaultBranch) {
		if oldDefault != "" && oldDefault == c.DefaultBranch {
			c.DefaultBranch = r.DefaultBranch
		}
		c.HostDefault = r.DefaultBranch
	}
	return *c != before
}

// chooses reports whether two configurations publish from different places: such a change
// needs the right to decide about a guarded entry.
func (c Connection) chooses(other Connection) bool {
	return c.RepoFullName != other.RepoFullName || c.DefaultBranch != other.DefaultBranch || c.SkillPath != other.SkillPath ||
		c.TagPattern != other.TagPattern
}

// repoKey normalises a repository's name for comparison: code hosts ignore case.
func repoKey(fullName string) string { return strings.ToLower(fullName) }

// StatusContext is the name of the commit status, e.g. "whetstone/publish/1a2b3c4d". It
// ends in characters of the connection's id, because several connections can report on
// one commit.
func (c Connection) StatusContext() string {
	return "whetstone/publish/" + c.ShortID()
}

// Check validates the fields a user can set, and normalises the path.
func (c *Connection) Check(on host.Provider) error {
	var issues []fault.Issue
	if on.CheckFullName(c.RepoFullName) != nil {
		issues = append(issues, fault.At("repo_full_name", "repo_full_name must be owner/repo"))
	}
	if !publication.ValidBranch(c.DefaultBranch) {
		issues = append(issues, fault.At("default_branch", "default_branch must be the name of a branch"))
	}
	path, err := host.CleanPath(c.SkillPath)
	if err != nil {
		issues = append(issues, fault.At("skill_path",
			"skill_path must be a folder inside the repository, with forward slashes and without .."))
	}
	c.SkillPath = path
	if !slices.Contains([]PullRequests{NoPulls, OwnPulls, AllPulls}, c.PullRequests) {
		issues = append(issues, fault.At("pull_requests", "pull_requests must be %s, %s or %s", NoPulls, OwnPulls, AllPulls))
	}
	if _, err := c.tags(); err != nil {
		issues = append(issues, fault.At("tag_pattern", "%s", err))
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// tags compiles the tag pattern. A pattern stored by an earlier release may be invalid;
// then no tags are published.
func (c Connection) tags() (publication.Tags, error) { return publication.ParseTags(c.TagPattern) }

// left reports whether the connection no longer publishes the ref: the branch or pattern
// was changed. A queued attempt of such a ref is skipped, because ChosenBy is no longer
// the user who chose it.
func (c Connection) left(r publication.Ref) bool {
	if r.Kind == publication.Branch {
		return r.Name != c.DefaultBranch
	}
	tags, err := c.tags()
	return err != nil || !tags.Match(r.Name)
}

// publishes reports whether a push of the ref is published. Tags need AutoPublish.
func (c Connection) publishes(r publication.Ref) bool {
	if r.Kind == publication.Branch {
		return r.Name == c.DefaultBranch
	}
	tags, err := c.tags()
	return err == nil && c.AutoPublish && tags.Match(r.Name)
}
