package server

import (
	"context"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// SuiteID resolves a suite's name to its id; an id stays as it is.
func (s *Session) SuiteID(ctx context.Context, name string) (string, error) {
	if IsID(name) {
		return name, nil
	}
	suites, err := s.EvalSuites(ctx, client.EvalSuiteFilter{})
	if err != nil {
		return "", err
	}
	var ids []string
	for _, suite := range suites {
		if suite.Name == name {
			ids = append(ids, suite.ID)
		}
	}
	switch len(ids) {
	case 0:
		return "", fault.New(fault.NotFound, "No suite is named %s", term.Plain(name))
	case 1:
		return ids[0], nil
	}
	return "", fault.New(fault.Conflict, "%d suites are named %s; use one of the ids %s", len(ids), term.Plain(name),
		strings.Join(ids, ", "))
}

// EvalSubject returns the skill that --source or --entry names. One of them is
// required.
func (s *Session) EvalSubject(ctx context.Context, source, entry, version string) (client.EvalSubject, error) {
	if source != "" {
		id, err := s.SourceID(ctx, source)
		return client.EvalSubject{SourceID: id}, err
	}
	if entry == "" {
		return client.EvalSubject{}, fault.Invalid("entry", "name what to test with --entry or --source")
	}
	if IsID(entry) {
		return client.EvalSubject{EntryID: entry, Version: version}, nil
	}
	found, err := s.EntryByName(ctx, entry)
	return client.EvalSubject{EntryID: found.ID, Version: version}, err
}

// A Named is something that a person may name: its id, and its names.
type Named struct {
	ID    string
	Names []string
}

// Pick returns the id of what has the name; an id is returned as it is, whether it is
// in the list or not. thing is what the list has, e.g. "alert", and command what
// prints it.
func Pick(thing, command, name string, all []Named) (string, error) {
	var ids []string
	for _, one := range all {
		if one.ID == name {
			return name, nil
		}
		if slices.Contains(one.Names, name) {
			ids = append(ids, one.ID)
		}
	}
	switch len(ids) {
	case 0:
		return "", fault.New(fault.NotFound, "No %s has the name or id %s; `whetstone %s` lists them", thing, term.Plain(name), command)
	case 1:
		return ids[0], nil
	}
	return "", fault.New(fault.Conflict, "%d of them have the name %s; use one of the ids %s", len(ids), term.Plain(name), strings.Join(ids, ", "))
}

// Newest is Pick from a list that is newest first: of several it takes the first.
func Newest(thing, command, name string, all []Named) (string, error) {
	i := slices.IndexFunc(all, func(one Named) bool { return slices.Contains(one.Names, name) })
	if i >= 0 {
		return all[i].ID, nil
	}
	return Pick(thing, command, name, all)
}

// NamesOf makes a list of T one of names.
func NamesOf[T any](all []T, name func(T) Named) []Named {
	out := make([]Named, len(all))
	for i, one := range all {
		out[i] = name(one)
	}
	return out
}

// SourceID resolves the label or the repository of a cloud source to its id; an id
// and "" stay as they are.
func (s *Session) SourceID(ctx context.Context, name string) (string, error) {
	if name == "" || IsID(strings.TrimPrefix(name, "src_")) {
		return name, nil
	}
	all, err := s.Sources(ctx, "")
	if err != nil {
		return "", err
	}
	return Pick("cloud source", "source list", name, NamesOf(all, func(one client.Source) Named {
		return Named{one.ID, []string{one.Label, one.RepoFullName}}
	}))
}

// RunID resolves the name of a suite to the id of its newest run; an id stays as it is.
func (s *Session) RunID(ctx context.Context, name string) (string, error) {
	if IsID(name) {
		return name, nil
	}
	suite, err := s.SuiteID(ctx, name)
	if err != nil {
		return "", err
	}
	runs, err := s.EvalRuns(ctx, suite)
	if err != nil {
		return "", err
	}
	if len(runs) == 0 {
		return "", fault.New(fault.NotFound, "The suite %s has no run yet; `whetstone eval run` starts one", term.Plain(name))
	}
	return runs[0].ID, nil
}
