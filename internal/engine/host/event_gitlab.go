package host

import (
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// gitlabPayload has the fields of GitLab's deliveries that are used. Those of a project,
// of a group and of the whole server (system hooks) have the same names; only the last
// two report renames.
type gitlabPayload struct {
	Ref         string `json:"ref"`
	After       string `json:"after"`
	CheckoutSHA string `json:"checkout_sha"` // the commit, also of an annotated tag
	Project     struct {
		ID            int64  `json:"id"`
		FullName      string `json:"path_with_namespace"`
		DefaultBranch string `json:"default_branch"`
	} `json:"project"`
	Attributes struct {
		Number int64  `json:"iid"`
		Action string `json:"action"`
		OldRev string `json:"oldrev"` // the head before, if it was pushed
	} `json:"object_attributes"`
	Changes json.RawMessage `json:"changes"`

	ProjectID int64  `json:"project_id"`
	FullName  string `json:"path_with_namespace"`
	OldName   string `json:"old_path_with_namespace"`
}

// gitlabActions translates what happens to merge requests and to projects.
var gitlabActions = map[string]struct {
	kind   EventKind
	action string
}{
	"open":             {EventPull, "opened"},
	"reopen":           {EventPull, "reopened"},
	"merge":            {EventPull, "closed"},
	"close":            {EventPull, "closed"},
	"approved":         {EventReview, "submitted"}, // the last of those that are needed
	"approval":         {EventReview, "submitted"},
	"unapproved":       {EventReview, "dismissed"},
	"unapproval":       {EventReview, "dismissed"},
	"project_rename":   {EventRepo, "renamed"},
	"project_transfer": {EventRepo, "transferred"},
}

// parseGitLab parses a delivery of GitLab. Its kind is in the body.
func parseGitLab(body []byte) (e Event, err error) {
	malformed := fault.New(fault.Malformed, "the delivery is not the JSON that a code host sends")
	var kind struct {
		Object string `json:"object_kind"`
		Event  string `json:"event_name"`
	}
	if err := json.Unmarshal(body, &kind); err != nil {
		return e, malformed.Because(err)
	}
	e.Kind = EventOther
	_, project := gitlabActions[kind.Event]
	if kind.Object == "" {
		kind.Object = kind.Event // system hooks
	}
	switch kind.Object {
	case "push", "tag_push", "merge_request":
	default:
		if !project {
			return e, nil // its fields may have other types
		}
	}
	var p gitlabPayload
	if err := json.Unmarshal(body, &p); err != nil {
		return e, malformed.Because(err)
	}
	e.Repository = EventRepository{ID: p.Project.ID, FullName: p.Project.FullName, DefaultBranch: p.Project.DefaultBranch}
	switch kind.Object {
	case "push", "tag_push":
		e.Kind, e.Pushes = EventPush, []Push{p.push()}
	case "merge_request":
		e.Kind, e.Action, e.Pull = EventPull, p.action(), p.Attributes.Number
		if to, ok := gitlabActions[p.Attributes.Action]; ok {
			e.Kind, e.Action = to.kind, to.action
		}
		if e.Pull < 1 || e.Kind == EventRepo {
			return Event{}, fault.New(fault.Malformed, "the delivery names no merge request")
		}
	default:
		to := gitlabActions[kind.Event]
		e.Kind, e.Action = to.kind, to.action
		e.Repository = EventRepository{ID: p.ProjectID, FullName: p.FullName, OldName: p.OldName}
		if e.Kind != EventRepo || GitLab.CheckFullName(p.OldName) != nil {
			return Event{}, malformed
		}
	}
	if GitLab.CheckFullName(e.Repository.FullName) != nil {
		return Event{}, fault.New(fault.Malformed, "the delivery names no repository")
	}
	return e, nil
}

func (p *gitlabPayload) push() Push {
	one := newPush(p.Ref, p.After)
	if one.After != "" && IsSHA(p.CheckoutSHA) {
		one.Commit = p.CheckoutSHA
	}
	return one
}

// action is that of a merge request that was changed: its head was pushed, or its branch,
// title or draft changed. Others, e.g. of its labels, do not matter.
func (p *gitlabPayload) action() string {
	if p.Attributes.OldRev != "" {
		return "synchronize"
	}
	var changed struct {
		Title  json.RawMessage `json:"title"`
		Draft  json.RawMessage `json:"draft"`
		Target json.RawMessage `json:"target_branch"`
	}
	if json.Unmarshal(p.Changes, &changed) == nil && (changed.Title != nil || changed.Draft != nil || changed.Target != nil) {
		return "edited"
	}
	return p.Attributes.Action
}
