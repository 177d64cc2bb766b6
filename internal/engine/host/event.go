package host

import (
	"cmp"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// An Event is a webhook delivery, independent of the provider.
type Event struct {
	Kind   EventKind
	Action string
	// Installation is 0 where the host has none.
	Installation int64
	Account      string // of the installation, if the event is about it
	Repository   EventRepository
	Pushes       []Push
	// Removed are the repositories that the installation no longer sees.
	Removed []EventRepository
	// Pull is the number of the pull request that the event is about, or 0.
	Pull int64
	// Rerun is what somebody asked to run again.
	Rerun *Rerun
	// OldDefault is the branch that was the default before, if that changed.
	OldDefault string
}

// An EventKind is the kind of an event, as in the header X-GitHub-Event.
type EventKind string

// The kinds of event.
const (
	EventPing         EventKind = "ping"
	EventPush         EventKind = "push"
	EventInstallation EventKind = "installation"              // created, deleted, suspend, unsuspend
	EventAccess       EventKind = "installation_repositories" // added, removed
	EventRepo         EventKind = "repository"                // renamed, transferred, deleted, edited
	EventPull         EventKind = "pull_request"              // opened, synchronize, closed, ...
	EventReview       EventKind = "pull_request_review"       // submitted, edited, dismissed, reviewed
	EventCheckRun     EventKind = "check_run"                 // rerequested
	EventCheckSuite   EventKind = "check_suite"               // rerequested
	EventOther        EventKind = "other"                     // ignored
)

// giteaReviews are what Gitea and Forgejo call reviews that approve or request changes.
var giteaReviews = map[EventKind]bool{"pull_request_approved": true, "pull_request_rejected": true}

// A Rerun is a request to run the checks of a commit again, or one of them.
type Rerun struct {
	Commit     string
	ExternalID string // of the check-run; "" for all
}

// An EventRepository names a repository. Its id stays when its name changes.
type EventRepository struct {
	ID       int64
	FullName string
	// OldName is its name before, if the event is about a rename or a transfer.
	OldName       string
	DefaultBranch string
}

// A Push is one ref that was updated, created or deleted.
type Push struct {
	Ref   string // refs/heads/x or refs/tags/x
	After string // "" if the ref was deleted
	// Commit is the commit of the ref, if the host sends it: After may be an
	// annotated tag.
	Commit string
}

// Branch returns the name of the branch, or "" for another ref.
func (p Push) Branch() string { return refName(p.Ref, "refs/heads/") }

// Tag returns the name of the tag, or "" for another ref.
func (p Push) Tag() string { return refName(p.Ref, "refs/tags/") }

func refName(ref, prefix string) string {
	name, ok := strings.CutPrefix(ref, prefix)
	if !ok {
		return ""
	}
	return name
}

// payload has the fields of a delivery that are used. Those of GitHub and Gitea
// have the same names; our own hook sends several refs at once.
type payload struct {
	Action     string `json:"action"`
	Ref        string `json:"ref"`
	After      string `json:"after"`
	Deleted    bool   `json:"deleted"`
	HeadCommit *struct {
		ID string `json:"id"`
	} `json:"head_commit"`
	Refs         []HookRef   `json:"refs"`
	Repository   *repository `json:"repository"`
	Installation struct {
		ID      int64 `json:"id"`
		Account login `json:"account"`
	} `json:"installation"`
	Removed     []repository `json:"repositories_removed"`
	Number      int64        `json:"number"`
	PullRequest struct {
		Number int64 `json:"number"`
	} `json:"pull_request"`
	CheckRun   checked `json:"check_run"`
	CheckSuite checked `json:"check_suite"`
	Changes    struct {
		Repository struct {
			Name changedFrom `json:"name"`
		} `json:"repository"`
		Owner struct {
			From struct {
				User         login `json:"user"`
				Organization login `json:"organization"`
			} `json:"from"`
		} `json:"owner"`
		DefaultBranch changedFrom `json:"default_branch"`
	} `json:"changes"`
}

// A HookRef is one line of the input of git's post-receive hook.
type HookRef struct {
	Ref    string `json:"ref"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// A HookPush is the delivery of our own hook.
type HookPush struct {
	Refs       []HookRef `json:"refs"`
	Repository struct {
		FullName string `json:"full_name"`
	} `json:"repository"`
}

type repository struct {
	ID            int64  `json:"id"`
	FullName      string `json:"full_name"`
	Name          string `json:"name"`
	Owner         login  `json:"owner"`
	DefaultBranch string `json:"default_branch"`
}

type checked struct {
	HeadSHA    string `json:"head_sha"`
	ExternalID string `json:"external_id"`
}

type login struct {
	Login string `json:"login"`
}

type changedFrom struct {
	From string `json:"from"`
}

// ParseEvent parses a delivery's body, JSON or a form with JSON in the field
// payload. An unknown event has the kind EventOther; an invalid body is
// Malformed.
func ParseEvent(header http.Header, body []byte) (Event, error) {
	body, err := jsonBody(header, body)
	if err != nil {
		return Event{}, err
	}
	if header.Get(GitLabEventHeader) != "" {
		return parseGitLab(body)
	}
	var p payload
	if err := json.Unmarshal(body, &p); err != nil {
		return Event{}, fault.New(fault.Malformed, "the delivery is not the JSON that a code host sends").Because(err)
	}
	e := Event{
		Kind: EventKind(header.Get(EventHeader)), Action: p.Action,
		Installation: p.Installation.ID, Account: p.Installation.Account.Login,
	}
	if p.Repository != nil {
		e.Repository = p.Repository.event()
	}
	if giteaReviews[e.Kind] {
		e.Kind = EventReview
	}
	switch e.Kind {
	case EventPing, EventInstallation:
	case EventPush:
		e.Pushes = p.pushes()
	case EventAccess:
		for _, r := range p.Removed {
			e.Removed = append(e.Removed, r.event())
		}
	case EventRepo:
		e.OldDefault = p.Changes.DefaultBranch.From
		e.Repository.OldName = p.oldName()
	case EventPull, EventReview:
		if e.Pull = cmp.Or(p.PullRequest.Number, p.Number); e.Pull < 1 {
			return Event{}, fault.New(fault.Malformed, "the delivery names no pull request")
		}
	case EventCheckRun, EventCheckSuite:
		e.Rerun = p.rerun(e.Kind)
	default:
		e.Kind = EventOther
	}
	if e.aboutRepository() && CheckFullName(e.Repository.FullName) != nil {
		return Event{}, fault.New(fault.Malformed, "the delivery names no repository")
	}
	return e, nil
}

// aboutRepository reports whether the event must name a repository.
func (e Event) aboutRepository() bool {
	return e.Kind == EventPush || e.Kind == EventRepo || e.Kind == EventPull || e.Kind == EventReview || e.Rerun != nil
}

// rerun is what was requested again; nil for any other news of a check.
func (p *payload) rerun(kind EventKind) *Rerun {
	of := p.CheckRun
	if kind == EventCheckSuite {
		of = checked{HeadSHA: p.CheckSuite.HeadSHA}
	}
	if p.Action != "rerequested" || !IsSHA(of.HeadSHA) {
		return nil
	}
	return &Rerun{Commit: of.HeadSHA, ExternalID: of.ExternalID}
}

func jsonBody(header http.Header, body []byte) ([]byte, error) {
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type")) // a body without a type is JSON
	if media != "application/x-www-form-urlencoded" {
		return body, nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || form.Get("payload") == "" {
		return nil, fault.New(fault.Malformed, "the form of the delivery has no field payload")
	}
	return []byte(form.Get("payload")), nil
}

func (r repository) event() EventRepository {
	return EventRepository{ID: r.ID, FullName: r.FullName, DefaultBranch: r.DefaultBranch}
}

func (p *payload) pushes() []Push {
	if p.Refs == nil {
		one := newPush(p.Ref, p.After)
		if p.Deleted {
			one.After = ""
		}
		if p.HeadCommit != nil && one.After != "" {
			one.Commit = p.HeadCommit.ID
		}
		return []Push{one}
	}
	all := make([]Push, len(p.Refs))
	for i, r := range p.Refs {
		all[i] = newPush(r.Ref, r.After)
	}
	return all
}

// newPush treats a SHA of zeros as a deletion. Of a branch, After is the commit.
func newPush(ref, after string) Push {
	p := Push{Ref: ref}
	if strings.Trim(after, "0") == "" || !IsSHA(after) {
		return p
	}
	p.After = after
	if p.Branch() != "" {
		p.Commit = after
	}
	return p
}

// oldName is the name of a repository before it was renamed or transferred.
func (p *payload) oldName() string {
	if p.Repository == nil {
		return ""
	}
	owner, name, _ := strings.Cut(p.Repository.FullName, "/")
	from := p.Changes.Owner.From
	switch p.Action {
	case "renamed":
		name = p.Changes.Repository.Name.From
	case "transferred":
		owner = from.User.Login + from.Organization.Login // one of them
	default:
		return ""
	}
	if owner == "" || name == "" {
		return ""
	}
	return owner + "/" + name
}
