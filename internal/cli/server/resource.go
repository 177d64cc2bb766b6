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

// A Resource is what the server has a list of, e.g. the teams of an organisation.
type Resource[T any] struct {
	Path  string // e.g. "/api/v1/teams"
	Field string // of the list in the answer, e.g. "teams"
	term.List[T]
}

// All reads the list to its end; query may be nil.
func (r Resource[T]) All(ctx context.Context, s *Session, query url.Values) ([]T, error) {
	return client.List[T](ctx, s.Client, r.Path, r.Field, query)
}

// Show is the command that prints the list.
func (r Resource[T]) Show(ctx context.Context, p *term.Program, f *Flags, query url.Values) error {
	return f.WithSession(p, func(s *Session) error {
		all, err := r.All(ctx, s, query)
		if err != nil {
			return err
		}
		return r.Print(p, all)
	})
}

// Find returns the first one that matches, or an error with the message missing.
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

// At is the path of one.
func (r Resource[T]) At(id string) string { return r.Path + "/" + url.PathEscape(id) }

// Delete deletes what is at a path, and prints its id with the status that it has now.
func (s *Session) Delete(ctx context.Context, p *term.Program, path, id, status, message string) error {
	if err := s.Call(ctx, http.MethodDelete, path, nil, nil); err != nil {
		return err
	}
	return p.Print(map[string]string{"id": id, "status": status}, func(w io.Writer) { fmt.Fprintln(w, message) })
}
