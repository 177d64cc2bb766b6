package publishers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/glob"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc"
)

// A Run is a workflow run as its code host describes it in a signed ID token. It's stored
// with each version that the run publishes, as provenance.
type Run struct {
	Provider     Provider `json:"provider"`
	Issuer       string   `json:"issuer"`
	Repository   string   `json:"repository"`
	RepositoryID string   `json:"repository_id"`
	OwnerID      string   `json:"repository_owner_id"`
	Ref          string   `json:"ref"` // full, e.g. "refs/tags/v1.2.3"
	Commit       string   `json:"commit"`
	WorkflowRef  string   `json:"workflow_ref"`
	WorkflowSHA  string   `json:"workflow_sha"`
	Environment  string   `json:"environment"`
	Event        string   `json:"event"`
	RunID        string   `json:"run_id"`
	RunAttempt   string   `json:"run_attempt"`
	RunURL       string   `json:"run_url"`
	Actor        string   `json:"actor"`
	Runner       string   `json:"runner"`
}

// A claim is a JSON string or number.
type claim string

// maxClaim is the longest accepted claim, in characters.
const maxClaim = 500

// UnmarshalJSON accepts strings and numbers, because code hosts write ids in either form.
// A claim that is too long or has control characters is refused rather than truncated: a
// rule must never match only part of a claim.
func (c *claim) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) != nil {
		var n json.Number
		if err := json.Unmarshal(b, &n); err != nil {
			return err
		}
		s = n.String()
	}
	if utf8.RuneCountInString(s) > maxClaim || strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("a claim is too long or has control characters")
	}
	*c = claim(s)
	return nil
}

// runOf reads the claims of a verified token in the format of the provider.
func runOf(t oidc.Token, p Provider) (Run, error) {
	r := Run{Provider: p, Issuer: t.Issuer}
	if p == GitLab {
		return r, r.readGitLab(t)
	}
	return r, r.readActions(t)
}

// readActions reads the claims of GitHub Actions. Gitea and Forgejo use the same names.
func (r *Run) readActions(t oidc.Token) error {
	var c struct {
		Repository   claim `json:"repository"`
		RepositoryID claim `json:"repository_id"`
		OwnerID      claim `json:"repository_owner_id"`
		Ref          claim `json:"ref"`
		SHA          claim `json:"sha"`
		WorkflowRef  claim `json:"workflow_ref"`
		WorkflowSHA  claim `json:"workflow_sha"`
		Environment  claim `json:"environment"`
		Event        claim `json:"event_name"`
		RunID        claim `json:"run_id"`
		RunAttempt   claim `json:"run_attempt"`
		Actor        claim `json:"actor"`
		Runner       claim `json:"runner_environment"`
	}
	if err := t.Claims(&c); err != nil {
		return err
	}
	r.Repository, r.RepositoryID, r.OwnerID = string(c.Repository), string(c.RepositoryID), string(c.OwnerID)
	r.Ref, r.Commit, r.WorkflowRef, r.WorkflowSHA = string(c.Ref), string(c.SHA), string(c.WorkflowRef), string(c.WorkflowSHA)
	r.Environment, r.Event, r.RunID = string(c.Environment), string(c.Event), string(c.RunID)
	r.RunAttempt, r.Actor, r.Runner = string(c.RunAttempt), string(c.Actor), string(c.Runner)
	if base := webURL(r.Issuer); base != "" && r.RunID != "" {
		r.RunURL = base + "/" + r.Repository + "/actions/runs/" + url.PathEscape(r.RunID)
	}
	return r.check()
}

// readGitLab reads the claims of GitLab CI, which names the ref without its prefix and
// the type of the ref apart. A ref of another type stays empty and matches no rule.
func (r *Run) readGitLab(t oidc.Token) error {
	var c struct {
		Path        claim `json:"project_path"`
		ID          claim `json:"project_id"`
		NamespaceID claim `json:"namespace_id"`
		Ref         claim `json:"ref"`
		RefType     claim `json:"ref_type"`
		SHA         claim `json:"sha"`
		Config      claim `json:"ci_config_ref_uri"`
		ConfigSHA   claim `json:"ci_config_sha"`
		Environment claim `json:"environment"`
		Source      claim `json:"pipeline_source"`
		PipelineID  claim `json:"pipeline_id"`
		User        claim `json:"user_login"`
		Runner      claim `json:"runner_environment"`
	}
	if err := t.Claims(&c); err != nil {
		return err
	}
	r.Repository, r.RepositoryID, r.OwnerID = string(c.Path), string(c.ID), string(c.NamespaceID)
	switch c.RefType {
	case "branch":
		r.Ref = branches + string(c.Ref)
	case "tag":
		r.Ref = tags + string(c.Ref)
	}
	r.Commit, r.WorkflowSHA, r.Environment, r.Event = string(c.SHA), string(c.ConfigSHA), string(c.Environment), string(c.Source)
	r.RunID, r.Actor, r.Runner = string(c.PipelineID), string(c.User), string(c.Runner)
	// The claim is e.g. "gitlab.example/acme/skills//.gitlab-ci.yml@refs/heads/main". A
	// config in another project leaves WorkflowRef empty, so that no rule with a workflow
	// matches it.
	if project, file, ok := strings.Cut(string(c.Config), "//"); ok && strings.HasSuffix(project, "/"+r.Repository) {
		r.WorkflowRef = r.Repository + "/" + file
	}
	if r.RunID != "" {
		r.RunURL = r.Issuer + "/" + r.Repository + "/-/pipelines/" + url.PathEscape(r.RunID)
	}
	return r.check()
}

// webURL returns the address of the code host's pages for an issuer of GitHub, Gitea or
// Forgejo, or "" if it can't be derived.
func webURL(issuer string) string {
	if issuer == GitHubIssuer {
		return "https://github.com"
	}
	for _, end := range []string{giteaIssuer, enterpriseIssuer} {
		if base, ok := strings.CutSuffix(issuer, end); ok {
			return base
		}
	}
	return ""
}

// check refuses tokens of anything but a workflow, e.g. of a user's sign-in.
func (r *Run) check() error {
	if !repositoryPattern.MatchString(r.Repository) {
		return fault.New(fault.Unauthorized, "The token names no repository: is it one of a workflow?")
	}
	return nil
}

// fromPullRequest reports whether the run belongs to a pull request, whose code isn't
// reviewed yet. A fork's pull request can be opened by anyone, and some events
// (pull_request_target) run it with the ref of the target branch, so the ref alone is not
// enough.
func (r *Run) fromPullRequest() bool {
	return strings.HasPrefix(r.Event, "pull_request") || r.Event == "merge_request_event" ||
		r.Event == "external_pull_request_event" ||
		!strings.HasPrefix(r.Ref, branches) && !strings.HasPrefix(r.Ref, tags)
}

// allows reports whether the run meets all conditions of the rule. Runs of pull requests
// never do.
func (p *Publisher) allows(r Run) bool {
	if r.fromPullRequest() || p.Provider != r.Provider || p.Issuer != r.Issuer || !strings.EqualFold(p.Repository, r.Repository) {
		return false
	}
	if p.RepositoryID != "" && p.RepositoryID != r.RepositoryID || p.OwnerID != "" && p.OwnerID != r.OwnerID {
		return false
	}
	// GitHub compares environment names case-insensitively.
	if p.Environment != "" && !strings.EqualFold(p.Environment, r.Environment) {
		return false
	}
	return p.allowsRef(r.Ref) && p.allowsWorkflow(r)
}

// allowsRef tries equality first: a ref may contain characters that a pattern would
// interpret.
func (p *Publisher) allowsRef(ref string) bool {
	if p.Ref == "" || p.Ref == ref {
		return true
	}
	pattern, err := glob.Parse(p.Ref)
	return err == nil && pattern.Match(ref)
}

// allowsWorkflow compares the workflow's file, which must be in the repository itself: a
// reusable workflow of another repository can have the same file name.
func (p *Publisher) allowsWorkflow(r Run) bool {
	if p.Workflow == "" {
		return true
	}
	head := r.Repository + "/"
	if len(r.WorkflowRef) < len(head) || !strings.EqualFold(r.WorkflowRef[:len(head)], head) {
		return false
	}
	file, _, _ := strings.Cut(r.WorkflowRef[len(head):], "@")
	// A full path is compared whole; a bare file name is looked for in the folders where
	// code hosts keep workflows.
	if strings.Contains(p.Workflow, "/") || r.Provider == GitLab {
		return file == p.Workflow
	}
	for _, folder := range []string{".github/workflows/", ".gitea/workflows/", ".forgejo/workflows/"} {
		if file == folder+p.Workflow {
			return true
		}
	}
	return false
}

// String describes the run in errors. It shows nothing but the caller's own token.
func (r *Run) String() string {
	s := fmt.Sprintf("repository %s, ref %s", r.Repository, orNone(r.Ref))
	if r.WorkflowRef != "" {
		s += ", workflow " + r.WorkflowRef
	}
	return s + ", environment " + orNone(r.Environment) + ", event " + orNone(r.Event)
}

// orNone makes an absent claim visible in an error message.
func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}
