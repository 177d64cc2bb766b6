// Package catalogue lets the trigger queries of a run choose from all skills that an
// agent would list, with descriptions as that agent truncates them. It owns the table
// eval_run_catalogs.
package catalogue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// A Choice is the catalogue on which a run asks its trigger queries.
type Choice api.EvalCatalog

// Full is the catalogue with whole descriptions.
const Full = "full"

// Agents are the catalogues with the descriptions of an agent's listing.
var Agents = []string{"claude-code", "codex"}

// Limits of a catalogue. The listing is sent to the model with every single trial, so
// its size is paid for each time.
const (
	MaxSkills = 1_000
	MaxText   = 400_000 // bytes
	minWindow = 1_000
	maxWindow = 10_000_000
)

// A Subject is the tested skill: it is listed in place of the registry's version.
type Subject struct {
	Name, Description string
	Text              string // of SKILL.md
}

// A Listing is what the model sees.
type Listing struct {
	Window int64 // that was used
	// Skills are the skills that are listed, by name. Descriptions are truncated, or empty.
	Skills []judge.Skill
	// Hidden is whether the subject is not for the model, as its SKILL.md says.
	Hidden bool
	// Content is a digest of names and whole descriptions, before truncation: it is the
	// same for listings of different agents and windows.
	Content string
}

// A Lister computes listings. ListFor returns what the agent of a Choice would show its
// model, with the subject in place of the registry's version.
type Lister interface {
	ListFor(ctx context.Context, orgID string, c Choice, of Subject) (Listing, error)
}

// Chosen returns the choice of a request; nil if it names no catalogue.
func Chosen(catalog string, window int64) (none *Choice, err error) {
	if catalog == "" && window != 0 {
		return nil, fault.Invalid("context_window", "context_window is that of a catalog: give catalog, too")
	}
	if catalog == "" {
		return none, nil // which is not an error
	}
	return &Choice{Catalog: catalog, Window: window}, nil
}

// Check returns an Invalid for a choice that cannot be, or not with these other options.
func (c Choice) Check(baseline, agent bool) error {
	switch {
	case c.Catalog != Full && !slices.Contains(Agents, c.Catalog):
		return fault.Invalid("catalog", "catalog must be one of: full, claude-code, codex")
	case c.Window != 0 && c.Catalog == Full:
		return fault.Invalid("context_window", "context_window is for the catalogs claude-code and codex: full has no budget")
	case c.Window != 0 && (c.Window < minWindow || c.Window > maxWindow):
		return fault.Invalid("context_window", "context_window must be between %d and %d tokens", minWindow, maxWindow)
	case baseline:
		return fault.Invalid("baseline", "baseline must be none with a catalog: compare with a run of the same seed on the catalog full")
	case agent:
		return fault.Invalid("agent", "agent cannot be given with a catalog: agents list and truncate skills by themselves")
	}
	return nil
}

// Cases returns the ids of the cases that can be asked on a catalogue: trigger queries
// that a model answers, without graders or an agent of their own. nil for chosen means
// all cases. It is a Conflict if there are none, or if a chosen case doesn't qualify.
func Cases(all []suites.Case, chosen []string) (ids []string, err error) {
	for _, c := range all {
		asked := c.Kind == suites.TriggerQuery && c.Graders == nil && (c.Agent == nil || c.Agent.Name == "")
		if asked && (chosen == nil || slices.Contains(chosen, c.ID)) {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) == 0 || len(ids) < len(chosen) {
		return nil, fault.New(fault.Conflict,
			"A catalog is asked with trigger queries without an agent; the suite has none, or other cases were chosen")
	}
	return ids, nil
}

// Pin computes the listing of a run, and returns the completed choice with the listed
// skills. Together with the subject's content and the listing's, conditions
// (Run.Conditions) makes up Pair, by which runs that differ only in the listing are
// compared.
func (c Choice) Pin(
	ctx context.Context, by Lister, find subject.Finder, orgID string, of subject.Pinned, conditions string,
) (*Choice, []judge.Skill, error) {
	if by == nil {
		return nil, nil, fault.New(fault.Unavailable, "This server lists no catalogs")
	}
	skill, err := find.FindPinned(ctx, orgID, of)
	if err != nil {
		return nil, nil, err
	}
	text, err := skill.Text(ctx)
	if err != nil {
		return nil, nil, err
	}
	got, err := by.ListFor(ctx, orgID, c, Subject{Name: skill.Name, Description: skill.Description, Text: text})
	if err != nil {
		return nil, nil, err
	}
	if err := got.check(skill.Name); err != nil {
		return nil, nil, err
	}
	pair := Digest([]string{conditions, skill.ContentHash, got.Content})
	return &Choice{c.Catalog, got.Window, len(got.Skills), pair}, got.Skills, nil
}

// check returns a Conflict for a listing that no run can be made on.
func (l Listing) check(name string) error {
	size := 0
	for _, k := range l.Skills {
		size += len(k.Name) + len(k.Description)
	}
	switch {
	case l.Hidden:
		return fault.New(fault.Conflict, "The SKILL.md of %s hides it from the model: no query can trigger it", name)
	case len(l.Skills) > MaxSkills:
		return fault.New(fault.Conflict, "The catalog has %d skills; a run shows the model at most %d", len(l.Skills), MaxSkills)
	case size > MaxText:
		return fault.New(fault.Conflict, "The catalog has %d bytes of names and descriptions; a run shows the model at most %d",
			size, MaxText)
	}
	return nil
}

// Without splits a listing into the tested skill, zero if it isn't listed, and the
// others.
func Without(listed []judge.Skill, name string) (own judge.Skill, others []judge.Skill) {
	for _, k := range listed {
		if k.Name == name {
			own = k
		} else {
			others = append(others, k)
		}
	}
	return own, others
}

// Digest returns the SHA-256 of a value's JSON, in hex.
func Digest(of any) string {
	raw, err := json.Marshal(of)
	if err != nil { // texts can always be encoded
		panic(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
