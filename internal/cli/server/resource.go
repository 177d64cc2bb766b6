package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// A Resource is something that the server has a list of, e.g. the teams of an
// organisation. T is one of them, as the API describes it.
type Resource[T any] struct {
	Path  string // e.g. "/api/v1/teams"
	Field string // name of the list in the reply, e.g. "teams"
	term.List[T]
}

// All reads all pages of the list; query filters it and may be nil.
func (r Resource[T]) All(ctx context.Context, s *Session, query url.Values) ([]T, error) {
	return client.List[T](ctx, s.Client, r.Path, r.Field, query)
}

// Show runs a command that prints the whole list.
func (r Resource[T]) Show(ctx context.Context, p *term.Program, f *Flags, query url.Values) error {
	return f.WithSession(p, func(s *Session) error {
		all, err := r.All(ctx, s, query)
		if err != nil {
			return err
		}
		return r.Print(p, all)
	})
}

// Find returns the first item that matches. If none does, the error is fault.NotFound
// with the text of missing.
func (r Resource[T]) Find(ctx context.Context, s *Session, missing string, match func(T) bool) (found T, err error) {
	all, err := r.All(ctx, s, nil)
	if err != nil {
		return found, err
	}
	for _, one := range all {
		if match(one) {
			return one, nil
		}
	}
	return found, fault.New(fault.NotFound, "%s", missing)
}

// At returns the path of the item with that id, e.g. "/api/v1/teams/ID".
func (r Resource[T]) At(id string) string { return r.Path + "/" + url.PathEscape(id) }

// Delete deletes the resource at path, and prints its id with its new status as JSON,
// or the message for people.
func (s *Session) Delete(ctx context.Context, p *term.Program, path, id, status, message string) error {
	if err := s.Call(ctx, http.MethodDelete, path, nil, nil); err != nil {
		return err
	}
	return p.Print(map[string]string{"id": id, "status": status}, func(w io.Writer) { fmt.Fprintln(w, message) })
}
