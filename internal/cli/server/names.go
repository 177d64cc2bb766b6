package server

import (
	"context"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/fault"
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
		return client.EvalSubject{SourceID: source}, nil
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
