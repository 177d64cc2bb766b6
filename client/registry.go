package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
)

// An Entry is a skill, agent, command, hook or bundle in the registry. Its name
// is unique within its organisation.
type Entry struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	EntryType   string  `json:"entry_type"` // skill, agent, command, hook or bundle
	Description string  `json:"description"`
	Visibility  string  `json:"visibility"` // public, org or unlisted
	SourceRepo  *string `json:"source_repo"`
	SkillID     *string `json:"skill_id"`
	// Organisation is the owner. Answers to a push omit it.
	Organisation string    `json:"organisation"`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
}

// A ListedEntry is an entry in a list.
type ListedEntry struct {
	Entry
	CurrentVersion    *CurrentVersion `json:"current_version"`
	PassRate          *float64        `json:"pass_rate"`
	EvalCount         int             `json:"eval_count"`
	InstallationCount int             `json:"installation_count"`
}

// CurrentVersion names the version that installations get.
type CurrentVersion struct {
	ID          string `json:"id"`
	Version     string `json:"version"`
	ContentHash string `json:"content_hash"`
}

// A Version is one archive of an entry. It is immutable.
type Version struct {
	ID                   string    `json:"id"`
	Version              string    `json:"version"`
	ContentHash          string    `json:"content_hash"` // SHA-256 of the archive
	ChangeSummary        *string   `json:"change_summary"`
	FileManifest         []File    `json:"file_manifest"`
	Source               string    `json:"source"` // cli, repohost or repohost-direct
	SourceRef            *string   `json:"source_ref"`
	SourceRepo           *string   `json:"source_repo"`
	IsCurrent            bool      `json:"is_current"`
	RolledBack           bool      `json:"rolled_back"`
	State                string    `json:"state"`            // candidate, published or withdrawn
	WithdrawnReason      *string   `json:"withdrawn_reason"` // nil unless it is withdrawn
	GateID               *string   `json:"gate_id"`          // its newest gate
	PushedAt             time.Time `json:"pushed_at"`
	PushedBy             string    `json:"pushed_by"` // empty for other organisations
	Size                 int64     `json:"size"`
	AggregatePassRate    *float64  `json:"aggregate_pass_rate"`
	PassRateBasis        *string   `json:"aggregate_pass_rate_basis"` // person, pushed, judge, outcome or mixed
	AggregateSessions    int       `json:"aggregate_sessions"`
	AggregateTriggerRate *float64  `json:"aggregate_trigger_rate"`
	// BasisCounts are the uses that count for the version, by the reason why.
	BasisCounts BasisCounts `json:"version_basis_counts"`
	Cost        *Cost       `json:"cost"` // over all time; nil without a model request
}

// BasisCounts are uses of a version by how it is known that they are of it.
type BasisCounts struct {
	Hash         int64 `json:"hash"`         // the record names its content hash
	Plugin       int64 `json:"plugin"`       // the agent names the version that it loaded
	Installation int64 `json:"installation"` // it was installed
	Time         int64 `json:"time"`         // it was current
}

// A File is one regular file of an archive.
type File struct {
	Path string `json:"path"`
	Hash string `json:"hash"` // SHA-256 of the content
	Size int64  `json:"size"`
}

// EntryDetail is an entry with its history.
type EntryDetail struct {
	Entry             Entry      `json:"entry"`
	Versions          []Version  `json:"versions"` // newest push first
	InstallationCount int        `json:"installation_count"`
	Rollbacks         []Rollback `json:"rollbacks"` // newest first
	Owners            *Owners    `json:"owners"`    // nil for other organisations
}

type (
	// An Owner is a member who owns an entry or is in a team.
	Owner = api.Owner
	// Owners are the people and teams that own an entry, and where that is set.
	Owners = api.Owners
	// An OwnersFile is the line of the repository's CODEOWNERS file that applies to the entry.
	OwnersFile = api.OwnersFile
	// A Team is a group of members.
	Team = api.Team
)

// A Rollback records that another version was made current.
type Rollback struct {
	FromVersion string `json:"from_version"`
	ToVersion   string `json:"to_version"`
	// PublishedVersion has the content of ToVersion, if that was rolled forward.
	PublishedVersion *string    `json:"published_version"`
	Reason           *string    `json:"reason"`
	RolledBackBy     string     `json:"rolled_back_by"` // empty for other organisations
	RolledBackAt     time.Time  `json:"rolled_back_at"`
	UndoneAt         *time.Time `json:"undone_at"` // nil while it stands
}

// A Filter selects entries.
type Filter struct {
	Name   string // exactly this name, when not empty
	Query  string // text in name or description, when not empty
	Public bool   // the public entries of all organisations instead of the caller's
	// Organisation selects, of the public entries, those of one organisation. With Name, too,
	// an unlisted one is found.
	Organisation string
}

// ListEntries lists the entries of the caller's organisation, or the public ones
// of all organisations, by name.
func (c *Client) ListEntries(ctx context.Context, f Filter) ([]ListedEntry, error) {
	path := "/api/v1/registry"
	if f.Public {
		path += "/public"
	}
	query := newQuery(map[string]string{"per_page": "1000", "name": f.Name, "q": f.Query, "organisation": f.Organisation})
	return List[ListedEntry](ctx, c, path, "entries", query)
}

// EntryByName returns the entry of the caller's organisation with the name. An
// unknown one is an *Error with the status 404.
func (c *Client) EntryByName(ctx context.Context, name string) (ListedEntry, error) {
	entries, err := c.ListEntries(ctx, Filter{Name: name})
	if err != nil {
		return ListedEntry{}, err
	}
	if len(entries) == 0 {
		return ListedEntry{}, &Error{Status: http.StatusNotFound, Message: fmt.Sprintf("No entry is named %s", name)}
	}
	return entries[0], nil
}

// Entry returns an entry that the caller may see, with its history.
func (c *Client) Entry(ctx context.Context, id string) (out EntryDetail, err error) {
	err = c.get(ctx, entryPath(id), nil, &out)
	return out, err
}

// Versions lists the versions of an entry, newest push first.
func (c *Client) Versions(ctx context.Context, id string) ([]Version, error) {
	var out struct {
		Versions []Version `json:"versions"`
	}
	err := c.get(ctx, entryPath(id)+"/versions", nil, &out)
	return out.Versions, err
}

// SetVisibility changes who may see an entry: public, org or unlisted. It needs the
// permission admin, or ownership of the entry.
func (c *Client) SetVisibility(ctx context.Context, id, visibility string) (Entry, error) {
	var out struct {
		Entry Entry `json:"entry"`
	}
	body := encode(map[string]string{"visibility": visibility})
	_, err := c.do(ctx, call{method: http.MethodPatch, path: entryPath(id), body: body, idempotent: true}, &out)
	return out.Entry, err
}

// DeleteEntry deletes an entry with all its versions. If an answer is lost, the
// retry may be an *Error with the status 404.
func (c *Client) DeleteEntry(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: entryPath(id), idempotent: true}, nil)
	return err
}

// RollbackResult is the result of a rollback.
type RollbackResult struct {
	Entry          Entry   `json:"entry"`
	Version        Version `json:"version"` // current now
	RolledBackFrom string  `json:"rolled_back_from"`
	Reason         *string `json:"reason"`
}

// Rollback makes another version current; an empty target means the one that was
// current before. The call is not idempotent.
func (c *Client) Rollback(ctx context.Context, id, target, reason string) (out RollbackResult, err error) {
	return c.rollBack(ctx, id, rollbackInput{TargetVersion: target, Reason: reason})
}

// RollForward is Rollback for clients that never go down to a lower version: it
// publishes the target's content as the next patch.
func (c *Client) RollForward(ctx context.Context, id, target, reason string) (out RollbackResult, err error) {
	return c.rollBack(ctx, id, rollbackInput{TargetVersion: target, Reason: reason, RollForward: true})
}

type rollbackInput struct {
	TargetVersion string `json:"target_version,omitempty"`
	Reason        string `json:"reason,omitempty"`
	RollForward   bool   `json:"roll_forward,omitempty"`
}

func (c *Client) rollBack(ctx context.Context, id string, in rollbackInput) (out RollbackResult, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: entryPath(id) + "/rollback", body: encode(in)}, &out)
	return out, err
}

// Undo takes the last rollback of an entry back. It is an *Error with the status
// 409 if another version became current since.
func (c *Client) Undo(ctx context.Context, id, reason string) (out RollbackResult, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: entryPath(id) + "/rollback/undo", body: encode(rollbackInput{Reason: reason})}, &out)
	return out, err
}

// Choices are the versions that an entry can be rolled back to.
type Choices struct {
	Current       *Choice   `json:"current"` // nil while the first version is a candidate
	Targets       []Choice  `json:"targets"` // newest push first
	DefaultTarget *string   `json:"default_target"`
	Undo          *Undoable `json:"undo"` // nil if no rollback can be undone
	// ForwardOnlyClients says that only RollForward reaches all clients of the entry.
	ForwardOnlyClients bool `json:"forward_only_clients"`
}

// A Choice is a version and how it did.
type Choice struct {
	Version          string      `json:"version"`
	State            string      `json:"state"`
	RolledBack       bool        `json:"rolled_back"`
	PassRate         *float64    `json:"pass_rate"`
	PassRateInterval *[2]float64 `json:"pass_rate_interval"`
	PassRateBasis    *string     `json:"pass_rate_basis"`
	GradedSessions   int64       `json:"graded_sessions"`
	Sessions         int64       `json:"sessions"`
	Cost             *Cost       `json:"cost"`
	PushedAt         time.Time   `json:"pushed_at"`
	CurrentSince     *time.Time  `json:"current_since"` // nil if it never was current
	CurrentUntil     *time.Time  `json:"current_until"` // nil while it is
}

// Undoable is a rollback that can be undone.
type Undoable struct {
	FromVersion  string    `json:"from_version"`
	ToVersion    string    `json:"to_version"`
	RolledBackAt time.Time `json:"rolled_back_at"`
}

// RollbackChoices returns what an entry can be rolled back to.
func (c *Client) RollbackChoices(ctx context.Context, id string) (out Choices, err error) {
	err = c.get(ctx, entryPath(id)+"/rollback", nil, &out)
	return out, err
}

func entryPath(id string) string { return "/api/v1/registry/" + url.PathEscape(id) }
