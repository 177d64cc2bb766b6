package web

import (
	"strings"

	"github.com/whetstone-dev/whetstone/internal/publish/publishers"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// publishersView lists the trusted publishers of an entry, with the form of a new
// one. Workflows are to be copied into the repository; they hold no secret.
type publishersView struct {
	Entry      registry.Entry
	Path       string
	Publishers []publishers.Publisher
	Size
	Form      publishers.Publisher
	Workflows []Snippet
}

func (s *Service) handlePublishers(v *visit) (answer, error) {
	return s.showPublishers(v, publishers.Publisher{Issuer: publishers.GitHubIssuer, Ref: "main"}, nil)
}

// showPublishers shows the page with a form. The form has the usual values at first,
// and what was typed after a refusal.
func (s *Service) showPublishers(v *visit, form publishers.Publisher, problem error) (answer, error) {
	e, err := s.Registry.Own(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	view := publishersView{Entry: e, Path: pathTo("registry", e.ID, "publishers"), Form: form, Size: Size{PerPage: peopleShown}}
	view.Workflows = workflows(s.PublicURL, e.ID, e.Name)
	if view.Publishers, view.Total, err = s.Publishers.List(v.Context(), v.Caller.OrgID, e.ID,
		v.list.Rows(peopleShown)); err != nil {
		return answer{}, err
	}
	page := show("publishers", "Trusted publishers", view)
	if problem != nil {
		return page.refused(problem)
	}
	return page, nil
}

// handleAddPublisher lets a workflow publish the entry. The ids of repository and
// owner are optional, and protect from a name that is reused.
func (s *Service) handleAddPublisher(v *visit) (answer, error) {
	field := func(name string) string { return strings.TrimSpace(v.FormValue(name)) }
	form := publishers.Publisher{
		EntryID: v.PathValue("id"), Issuer: field("issuer"), Repository: field("repository"), Ref: field("ref"),
		Workflow:    field("workflow"),
		Environment: field("environment"), RepositoryID: field("repository_id"), OwnerID: field("repository_owner_id"),
	}
	p, err := s.Publishers.Create(v.Context(), v.Caller, form)
	if err != nil {
		return s.showPublishers(v, form, err)
	}
	return redirect(pathTo("registry", p.EntryID, "publishers"), p.Repository+" may publish "+p.EntryName+" from now on."), nil
}

// handleDeletePublisher removes a trusted publisher and its keys. The entry is
// looked up first: it must be of the caller's organisation.
func (s *Service) handleDeletePublisher(v *visit) (answer, error) {
	e, err := s.Registry.Own(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err == nil {
		err = s.Publishers.Delete(v.Context(), v.Caller.OrgID, v.PathValue("publisher"))
	}
	if err != nil {
		return answer{}, err
	}
	return redirect(pathTo("registry", e.ID, "publishers"),
		"The trusted publisher was removed. Its keys do not work any more."), nil
}
