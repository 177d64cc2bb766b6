// Package repohost connects repositories on a code host (GitHub, Gitea, bare git)
// to registry entries: a push becomes a version, the commit shows the outcome,
// and reconciliation repairs missed webhooks. It owns the tables
// repohost_settings, repohost_installations, repohost_connections,
// repohost_deliveries and repohost_attempts; claims below it owns
// repohost_claims.
package repohost

import (
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/refs"
)

// A Mode says whether an organisation allows write-back: commit statuses and check-runs on its code host.
type Mode string

// The modes. ModePRs is ModeChecks and permits to open pull requests.
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

// An Installation is an organisation's access to one account of the code host.
type Installation struct {
	ID             string
	OrgID          string
	InstallationID int64 // issued by the code host
	AccountLogin   string
	AccountType    string // "User" or "Organization"
	// Suspended is set by the organisation, or by the code host's webhook.
	Suspended bool
	// Claimed reports whether the organisation holds the claim on the account.
	// Without it nothing is read through the installation.
	Claimed bool
	// Token is the account's own token, nil to use the server's. The database
	// has it sealed.
	Token     *string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// The limits of an installation.
const (
	// MaxInstallationID is the largest integer that JSON clients keep exactly.
	MaxInstallationID = 1<<53 - 1
	MaxAccountLogin   = 100
	MaxToken          = 500
)

// Check validates what a user can set, except that not every code host takes a token: Service.Bind checks that.
func (i Installation) Check() error {
	if issues := i.issues(); len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

func (i Installation) issues() (all []fault.Issue) {
	if i.InstallationID < 1 || i.InstallationID > MaxInstallationID {
		all = append(all, fault.At("installation_id", "installation_id must be a whole number from 1"))
	}
	if len(i.AccountLogin) > MaxAccountLogin || host.CheckAccountLogin(i.AccountLogin) != nil {
		all = append(all, fault.At("account_login", "account_login must be the name of an account on the code host"))
	}
	if i.AccountType != "User" && i.AccountType != "Organization" {
		all = append(all, fault.At("account_type", "account_type must be User or Organization"))
	}
	// Only printable ASCII can be sent in a header.
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if i.Token != nil && (len(*i.Token) > MaxToken || strings.ContainsFunc(*i.Token, unprintable)) {
		all = append(all, fault.At("token", "token must be an access token of at most %d characters", MaxToken))
	}
	return all
}

// Inactive reports whether nothing is read through the installation.
func (i Installation) Inactive() bool { return i.Suspended || !i.Claimed }

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
	RepoFullName     string // e.g. "acme/skills"
	DefaultBranch    string // whose head is published
	SkillPath        string // folder in the repository, "." for its root
	AutoPublish      bool   // publish tags when they are pushed, not only on sync
	WriteBackEnabled bool
	TagPattern       string // glob of the tags that are published, e.g. "v*"
	// PublishUnchanged publishes every push to the branch, also one that leaves
	// the folder as it is.
	PublishUnchanged bool
	// OpenIssues opens an issue on the code host when a version of the repository
	// was rolled back by an alert.
	OpenIssues bool
	// PullRequests says whose heads are gated before they are merged.
	PullRequests PullRequests
	// HostDefault is the repository's default branch as the code host last named
	// it, "" before it did.
	HostDefault string
	// Codeowners says that the repository's CODEOWNERS file names the owners of the entry.
	Codeowners bool
	CreatedBy  string
	// ChosenBy is who last changed repository, branch, path or tag pattern, at ChosenAt:
	// a version that comes of it is also theirs.
	ChosenBy  string
	ChosenAt  time.Time
	CreatedAt time.Time
	UpdatedAt time.Time
	// ConfiguredAt is when a setting changed that decides what is published:
	// commits that were refused before are tried again.
	ConfiguredAt time.Time
}

// PullRequests says which pull requests a connection gates. A gate costs what its
// trials cost, and the head of a fork is anybody's text.
type PullRequests string

// Which pull requests are gated.
const (
	NoPulls  PullRequests = "off"
	OwnPulls PullRequests = "same_repository"
	AllPulls PullRequests = "all" // those of forks, too
)

// DefaultConnection has the defaults of a new connection, which the API's schema states, too.
func DefaultConnection() Connection {
	return Connection{DefaultBranch: "main", SkillPath: ".", TagPattern: "v*", AutoPublish: true, PullRequests: OwnPulls}
}

// follow applies the name and the default branch that the code host reports for
// the repository. The connection's branch follows only from the repository's
// default branch: one that a user chose stays.
func (c *Connection) follow(r host.EventRepository, oldDefault string) (changed bool) {
	if c.RepoID != 0 && r.ID != 0 && r.ID != c.RepoID {
		return false // another repository has the old name now
	}
	before := *c
	if host.CheckFullName(r.FullName) == nil {
		c.RepoFullName = r.FullName
	}
	if refs.ValidBranch(r.DefaultBranch) {
		if oldDefault != "" && oldDefault == c.DefaultBranch {
			c.DefaultBranch = r.DefaultBranch
		}
		c.HostDefault = r.DefaultBranch
	}
	return *c != before
}

// chooses reports whether two configurations publish from different places.
func (c Connection) chooses(other Connection) bool {
	return c.RepoFullName != other.RepoFullName || c.DefaultBranch != other.DefaultBranch || c.SkillPath != other.SkillPath ||
		c.TagPattern != other.TagPattern
}

// repoKey is the form in which names of repositories are compared: code hosts ignore case.
func repoKey(fullName string) string { return strings.ToLower(fullName) }

// StatusContext is the name of the commit status, e.g.
// "whetstone/publish/1a2b3c4d": 8 characters of the last group of the id, which
// is its random part.
func (c Connection) StatusContext() string {
	return "whetstone/publish/" + c.ShortID()
}

// Check validates what a user can set, and normalises the path.
func (c *Connection) Check() error {
	var issues []fault.Issue
	if host.CheckFullName(c.RepoFullName) != nil {
		issues = append(issues, fault.At("repo_full_name", "repo_full_name must be owner/repo"))
	}
	if !refs.ValidBranch(c.DefaultBranch) {
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

// tags compiles the tag pattern. One that was stored by an earlier version may be invalid: then no tag is published.
func (c Connection) tags() (refs.Tags, error) { return refs.ParseTags(c.TagPattern) }

// left reports whether a ref is another branch, or no tag of the pattern, than the
// connection publishes now: who chose it is no longer known.
func (c Connection) left(r refs.Ref) bool {
	if r.Kind == refs.Branch {
		return r.Name != c.DefaultBranch
	}
	tags, err := c.tags()
	return err != nil || !tags.Match(r.Name)
}

// publishes reports whether a push of the ref is published.
func (c Connection) publishes(r refs.Ref) bool {
	if r.Kind == refs.Branch {
		return r.Name == c.DefaultBranch
	}
	tags, err := c.tags()
	return err == nil && c.AutoPublish && tags.Match(r.Name)
}
