package telemetry

// OTLP reports some things several times: an activation by several signals, a counter
// cumulatively, and what Codex uses both in its log and in its metrics. A stored state
// tells what has been counted.

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// An activationReport is what one signal reports of an activation. Other signals report the
// same one, and not all of them know its tool call, so it cannot be the key of
// deduplication. But within a group (a skill in one prompt or trace) every
// signal reports every activation once: the n-th report of each signal is taken
// for the n-th activation, and a group has as many activations as the signal
// with the most reports.
type activationReport struct {
	skills.Observation
	Group string
	By    reporter
}

// A reporter is the kind of signal that reports an activation.
type reporter string

// The reporters. Only ByCall knows the tool call, which is the alias of its
// observations.
const (
	byCall   reporter = "call"
	byEvent  reporter = "event"
	byResult reporter = "result"
	bySpan   reporter = "span"
	byUseID  reporter = "use"
)

// pointGroup is the stored state of a group: its activations in the order in
// which they were reported, each at most once by each reporter.
type pointGroup struct {
	// Reports are the names of the reports by Reporter: the n-th is of the n-th
	// activation.
	Reports map[reporter][]string `json:"faces"`
	// IDs are the ids of the activations' observations: that of the first report
	// without a call; "" while there is none.
	IDs []string `json:"ids"`
	// Claims are the ids of the records of imports by their calls: a second record of
	// one call is an activation of its own.
	Claims map[string]string `json:"claims,omitempty"`
}

// maxActivations bounds the stored state of a group. No prompt uses a skill that
// often; reports beyond it are not deduplicated.
const maxActivations = 1000

// indexOf returns the activation of a report: its own if it was reported before,
// else the first that its reporter has not reported.
func (s *pointGroup) indexOf(by reporter, name string) (i int, ok bool) {
	if i = slices.Index(s.Reports[by], name); i >= 0 {
		return i, true
	}
	if i = len(s.Reports[by]); i == maxActivations {
		return 0, false
	}
	if s.Reports == nil {
		s.Reports = map[reporter][]string{}
	}
	s.Reports[by] = append(s.Reports[by], name)
	if i == len(s.IDs) {
		s.IDs = append(s.IDs, "")
	}
	return i, true
}

// Resolve gives a report the keys that all reports of its activation share: one
// id, and the alias of the tool call if it is known. By these, skills merges it
// with observations that were stored under other keys before.
func (s *pointGroup) Resolve(r activationReport) skills.Observation {
	o := r.Observation
	name := o.ID
	if r.By == byCall {
		name = o.Aliases[0]
	}
	if holder, ok := s.Claims[name]; ok && o.Claim != "" && holder != o.ID {
		return o
	}
	i, ok := s.indexOf(r.By, name)
	if !ok {
		return o
	}
	if o.Claim != "" {
		if s.Claims == nil {
			s.Claims = map[string]string{}
		}
		s.Claims[name] = o.ID
	}
	if r.By != byCall && s.IDs[i] == "" {
		s.IDs[i] = o.ID
	}
	if s.IDs[i] != "" {
		o.ID = s.IDs[i]
	}
	if calls := s.Reports[byCall]; i < len(calls) {
		o.Aliases = calls[i : i+1]
	}
	return o
}

// countActivations turns reports into observations with one id for each activation,
// however many signals report it and in whatever order they arrive.
func countActivations(ctx context.Context, tx *store.Tx, c access.Caller, reports []activationReport) ([]skills.Observation,
	error,
) {
	ids := make([]string, len(reports))
	for i, r := range reports {
		ids[i] = r.Group
	}
	groups, err := lockStates[pointGroup](ctx, tx, c, ids)
	if err != nil {
		return nil, err
	}
	observations := make([]skills.Observation, len(reports))
	for i, r := range reports {
		observations[i] = groups[r.Group].Resolve(r)
	}
	return observations, updateStates(ctx, tx, groups)
}
