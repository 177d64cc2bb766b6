package server

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// namesTimeout is how long a person who pressed Tab waits for names.
const namesTimeout = 2 * time.Second

// Names returns the names of the organisation's entries, sets, suites or skills, to complete
// them. Without a login, or a server that answers in time, there are none.
func Names(ctx context.Context, p *term.Program, kind string) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, namesTimeout)
	defer cancel()
	f := Flags{Server: os.Getenv("WHETSTONE_SERVER"), APIKey: config.Secret(os.Getenv("WHETSTONE_API_KEY"))}
	_ = f.WithSession(p, func(s *Session) error { // an error has no place on a line that is being typed
		switch kind {
		case "entries":
			all, err := s.ListEntries(ctx, client.Filter{})
			for _, e := range all {
				names = append(names, e.Name)
			}
			return err
		case "sets":
			all, err := s.Sets(ctx, client.SetFilter{})
			for _, set := range all {
				names = append(names, set.Name)
			}
			return err
		case "suites":
			all, err := s.EvalSuites(ctx, client.EvalSuiteFilter{})
			for _, suite := range all {
				names = append(names, suite.Name)
			}
			return err
		}
		all, err := s.Skills(ctx, client.SkillFilter{})
		for _, skill := range all {
			names = append(names, skill.Name)
		}
		return err
	})
	return names
}

// SuiteID resolves a suite's name to its id; an id stays as it is, without a request.
// Several suites of one name are a conflict.
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

// SetID resolves a set's name to its id; an id stays as it is, without a request.
func (s *Session) SetID(ctx context.Context, name string) (string, error) {
	if IsID(name) {
		return name, nil
	}
	all, err := s.Sets(ctx, client.SetFilter{Name: name})
	if err != nil {
		return "", err
	}
	return Pick("set", "set list", name, all, func(one api.Set) (string, []string) { return one.ID, []string{one.Name} })
}

// EvalSubject returns the skill that --source or --entry names. One of them is
// required. version "" means the current one of the entry.
func (s *Session) EvalSubject(ctx context.Context, source, entry, version string) (api.EvalSubject, error) {
	// The commands let kong refuse both flags at once, so the order does not matter.
	if source != "" {
		id, err := s.SourceID(ctx, source)
		return api.EvalSubject{SourceID: id}, err
	}
	if entry == "" {
		return api.EvalSubject{}, fault.Invalid("entry", "name what to test with --entry or --source")
	}
	if IsID(entry) {
		return api.EvalSubject{EntryID: entry, Version: version}, nil
	}
	found, err := s.EntryByName(ctx, entry)
	return api.EvalSubject{EntryID: found.ID, Version: version}, err
}

// ID is Pick for a list that is only requested if name is not an id.
func ID[T any](thing, command, name string, list func() ([]T, error), names func(T) (string, []string)) (string, error) {
	if IsID(name) {
		return name, nil
	}
	all, err := list()
	if err != nil {
		return "", err
	}
	return Pick(thing, command, name, all, names)
}

// Pick returns the id of the item that has the name; names returns the id and the names
// of an item. An id of the list is returned as it is. thing is the kind of item, e.g.
// "alert", and command the one that lists them, e.g. "alert list": both are for
// messages. Several items of that name are a conflict that lists their ids.
func Pick[T any](thing, command, name string, all []T, names func(T) (string, []string)) (string, error) {
	var ids []string
	for _, one := range all {
		// An id needs no further look: ids do not repeat, names do.
		id, known := names(one)
		if id == name {
			return name, nil
		}
		if slices.Contains(known, name) {
			ids = append(ids, id)
		}
	}
	switch len(ids) {
	case 0:
		return "", fault.New(fault.NotFound, "No %s has the name or id %s; `whetstone %s` lists them", thing,
			term.Plain(name), command)
	case 1:
		return ids[0], nil
	}
	return "", fault.New(fault.Conflict, "%d of them have the name %s; use one of the ids %s", len(ids), term.Plain(name),
		strings.Join(ids, ", "))
}

// SourceID resolves the label of a cloud source to its id; an id, also with the prefix
// "src_", and "" stay as they are. Lists of sources do not have their repositories.
func (s *Session) SourceID(ctx context.Context, name string) (string, error) {
	if name == "" || IsID(strings.TrimPrefix(name, "src_")) {
		return name, nil
	}
	all, err := s.Sources(ctx, "")
	if err != nil {
		return "", err
	}
	return Pick("cloud source", "source list", name, all, func(one api.ListedSource) (string, []string) {
		return one.ID, []string{one.Label}
	})
}

// RunID resolves the name of a suite to the id of its newest run; an id stays as it is.
func (s *Session) RunID(ctx context.Context, name string) (string, error) {
	if IsID(name) {
		return name, nil
	}
	// Runs have no names. People know their suite, and mostly ask for its newest
	// run.
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
