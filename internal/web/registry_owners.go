package web

import (
	"context"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
)

// An ownersView says who owns an entry, on its page. Named is empty for owners from
// a file, which cannot be edited here.
type ownersView struct {
	teams.Owners
	Changeable bool     // by the caller
	Mine       bool     // the caller is an owner
	Named      string   // the input: those that were set by hand
	Known      []string // addresses and teams to choose from
}

// FromFile reports whether the owners are those of the CODEOWNERS file.
func (o ownersView) FromFile() bool { return o.Source == teams.File }

// ownersOf returns who owns an entry of the caller's organisation.
func (s *Service) ownersOf(ctx context.Context, c access.Caller, entryID string) (view ownersView, err error) {
	if view.Owners, err = s.Teams.OwnersOf(ctx, c.OrgID, entryID); err != nil {
		return view, err
	}
	if view.Mine, err = s.Teams.MayAsOwner(ctx, c, entryID); err != nil {
		return view, err
	}
	// The rest is for the form only, and addresses of people are not for everyone.
	if view.Changeable = view.Mine || c.May(access.Admin); !view.Changeable {
		return view, nil
	}
	if view.Source == teams.Manual {
		var all []string
		for _, u := range view.Users {
			all = append(all, u.Email)
		}
		for _, t := range view.Teams {
			all = append(all, "@"+t.Slug)
		}
		view.Named = strings.Join(all, ", ")
	}
	found, _, err := s.Teams.List(ctx, c.OrgID, store.Page{Limit: peopleShown})
	if err != nil {
		return view, err
	}
	for _, t := range found {
		view.Known = append(view.Known, "@"+t.Slug)
	}
	people, err := s.peopleOf(ctx, c)
	view.Known = append(view.Known, people...)
	return view, err
}

// setOwners sets the owners that a person typed; none leave it to the CODEOWNERS
// file. An unknown name is a problem of the form, and then nothing is changed.
func (s *Service) setOwners(ctx context.Context, c access.Caller, entryID, text string) error {
	n, err := s.Teams.Find(ctx, c.OrgID, splitNames(text))
	if err != nil {
		return err
	}
	_, err = s.Teams.SetOwners(ctx, c.OrgID, entryID, n)
	return err
}
