// Package publishers lets a CI workflow on a code host publish a registry entry without a
// stored secret (trusted publishing, as on PyPI): the workflow's OIDC ID token is
// exchanged for a key that lives 15 minutes and can only push versions of that entry.
//
// It owns the tables trusted_publishers, trusted_exchanges and version_publishers.
package publishers

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/glob"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// A Publisher is a rule: workflow runs that match it may publish one entry. An empty
// condition matches everything.
type Publisher struct {
	ID         string
	OrgID      string
	EntryID    string
	EntryName  string
	Provider   Provider
	Issuer     string
	Repository string
	// Ref is a pattern of full refs, e.g. "refs/tags/v*"; "" matches every branch and
	// tag.
	Ref         string
	Workflow    string // file name, e.g. "release.yml"; "" matches every workflow
	Environment string // "" matches every environment, and none
	// RepositoryID and OwnerID are the code host's ids, which don't change when a
	// repository is renamed and differ when it is deleted and recreated. Without them
	// anyone who takes over the name could publish (resurrection attack). If they aren't
	// given, those of the first run are pinned.
	RepositoryID, OwnerID string
	CreatedBy             string // user id
	CreatedAt             time.Time
	LastUsedAt            *time.Time
}

// A Provider is a kind of code host. It decides which claims a token has.
type Provider string

// The providers.
const (
	GitHub Provider = "github"
	GitLab Provider = "gitlab"
	Gitea  Provider = "gitea" // also Forgejo
)

// providers fixes the order in which providersOfIssuer and Exchange try them.
func providers() []Provider { return []Provider{GitHub, GitLab, Gitea} }

// Issuers by which the provider of a rule is recognised when it isn't given.
const (
	// GitHubIssuer signs the tokens of GitHub Actions on github.com.
	GitHubIssuer = "https://token.actions.githubusercontent.com"
	// giteaIssuer is the suffix of the issuers of Gitea and Forgejo.
	giteaIssuer = "/api/actions"
	// enterpriseIssuer is the suffix of the issuers of GitHub Enterprise Server.
	enterpriseIssuer = "/_services/token"
)

// Limits. An exchange reads all rules of a repository, so their number bounds its cost.
const (
	maxField      = 255 // characters
	maxPublishers = 1_000
	maxOfEntry    = 50
)

// repositoryPattern allows more than one slash, for GitLab's nested groups.
var (
	repositoryPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+$`)
	workflowPattern   = regexp.MustCompile(`^[A-Za-z0-9_./ -]+\.ya?ml$`)
	idPattern         = regexp.MustCompile(`^[0-9]{1,20}$`)
)

// normalise fills in defaults and refuses rules that can't match any run, so that a typo
// is reported when the rule is made and not when a release fails.
func (p *Publisher) normalise(allowPrivate bool) error {
	p.Issuer = strings.TrimSuffix(strings.TrimSpace(p.Issuer), "/")
	if p.Issuer == "" {
		p.Issuer = GitHubIssuer
	}
	issues := p.checkIssuer(allowPrivate)
	if p.Provider == "" {
		p.Provider = providerOf(p.Issuer)
	}
	if !slices.Contains(providers(), p.Provider) {
		issues = append(issues, fault.At("provider", "provider must be github, gitlab or gitea"))
	}
	if len(p.Repository) > maxField || !repositoryPattern.MatchString(p.Repository) {
		issues = append(issues, fault.At("repository", "repository must be the path of a repository, e.g. acme/skills"))
		// Only GitLab has groups within groups.
	} else if p.Provider != GitLab && strings.Count(p.Repository, "/") != 1 {
		issues = append(issues, fault.At("repository", "repository must be owner/name, e.g. acme/skills"))
	}
	issues = append(issues, p.checkRef()...)
	if p.Workflow != "" && (len(p.Workflow) > maxField || !workflowPattern.MatchString(p.Workflow)) {
		issues = append(issues, fault.At("workflow", "workflow must be the name of a file, e.g. release.yml"))
	}
	if len(p.Environment) > maxField || strings.ContainsFunc(p.Environment, unicode.IsControl) {
		issues = append(issues, fault.At("environment", "environment must have at most %d characters", maxField))
	}
	for _, id := range []struct{ field, value string }{{"repository_id", p.RepositoryID}, {"repository_owner_id", p.OwnerID}} {
		if id.value != "" && !idPattern.MatchString(id.value) {
			issues = append(issues, fault.At(id.field, "%s must be the number that the code host knows it by", id.field))
		}
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// checkIssuer requires https: someone who can change the issuer's keys in transit can
// forge any token. Servers that allow private networks may use http.
func (p *Publisher) checkIssuer(allowPrivate bool) []fault.Issue {
	u, err := outbound.ParseURL(p.Issuer)
	switch {
	case err != nil || len(p.Issuer) > maxField || u.RawQuery != "" || u.Fragment != "":
		return []fault.Issue{fault.At("issuer", "issuer must be an address like %s or https://gitlab.example", GitHubIssuer)}
	case u.Scheme != "https" && !allowPrivate:
		return []fault.Issue{fault.At("issuer", "issuer must begin with https://")}
	// A common mistake: tokens of github.com have an issuer of their own.
	case u.Host == "github.com":
		return []fault.Issue{fault.At("issuer", "issuer must be %s for repositories on github.com", GitHubIssuer)}
	}
	return nil
}

// providerOf guesses the provider from the issuer: GitHub and Gitea have a recognisable
// suffix or host, and any other https address is taken for a GitLab instance.
func providerOf(issuer string) Provider {
	u, err := url.Parse(issuer)
	switch {
	case err != nil:
		return ""
	case issuer == GitHubIssuer, strings.HasSuffix(u.Path, enterpriseIssuer),
		strings.HasPrefix(u.Host, "token.actions.") && strings.HasSuffix(u.Host, ".ghe.com"):
		return GitHub
	case strings.HasSuffix(u.Path, giteaIssuer):
		return Gitea
	}
	return GitLab
}

const (
	branches = "refs/heads/"
	tags     = "refs/tags/"
)

// checkRef expands the name of a branch ("main") to a full ref, and refuses what isn't a
// pattern of branches or tags.
func (p *Publisher) checkRef() []fault.Issue {
	if p.Ref == "" {
		return nil
	}
	if !strings.HasPrefix(p.Ref, "refs/") {
		p.Ref = branches + p.Ref
	}
	if !strings.HasPrefix(p.Ref, branches) && !strings.HasPrefix(p.Ref, tags) {
		return []fault.Issue{fault.At("ref", "ref must be a branch, e.g. main, or begin with %s or %s", branches, tags)}
	}
	if _, err := glob.Parse(p.Ref); err != nil || len(p.Ref) > maxField || strings.ContainsFunc(p.Ref, unicode.IsControl) {
		return []fault.Issue{fault.At("ref", "ref is not a valid pattern: * matches all but a slash, ** also slashes")}
	}
	return nil
}
