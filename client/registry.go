package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/whetstone-dev/whetstone/client/api"
)

type (
	// BasisCounts are uses of a version by how it is known that they are of it.
	BasisCounts = api.BasisCounts
	// A Choice is a version and how it did: what speaks for or against it.
	Choice = api.Choice
	// Choices are the versions that an entry can be rolled back to.
	Choices = api.Choices
	// CurrentVersion names the version that installations get.
	CurrentVersion = api.CurrentVersion
	// An Entry is a skill, agent, command, hook or bundle in the registry. Its name is
	// unique within its organisation.
	Entry = api.Entry
	// EntryDetail is an entry with its history. The server streams it: an entry may have
	// thousands of versions.
	EntryDetail = api.EntryDetail
	// A File is one regular file of an archive.
	File = api.File
	// A ListedEntry is an entry in a list, with the quality of its current version.
	ListedEntry = api.ListedEntry
	// An OwnedEntry is an entry with the name of the organisation that owns it.
	OwnedEntry = api.OwnedEntry
	// Released is an entry after the state of one of its versions has changed.
	Released = api.Released
	// A Rollback records that another version was made current.
	Rollback = api.Rollback
	// RollbackResult is an entry after a rollback, with the version that is current now.
	RollbackResult = api.RollbackResult
	// Undoable is a rollback that can be undone.
	Undoable = api.Undoable
	// A Version is one archive of an entry. It is immutable.
	Version = api.Version
)

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
	_, err = c.do(ctx, call{
		method: http.MethodPost, path: entryPath(id) + "/rollback/undo",
		body: encode(rollbackInput{Reason: reason}),
	}, &out)
	return out, err
}

// RollbackChoices returns what an entry can be rolled back to.
func (c *Client) RollbackChoices(ctx context.Context, id string) (out Choices, err error) {
	err = c.get(ctx, entryPath(id)+"/rollback", nil, &out)
	return out, err
}

func entryPath(id string) string { return "/api/v1/registry/" + url.PathEscape(id) }
