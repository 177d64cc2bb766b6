package telemetry

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A maskedClue is what a report says about the skills that a prompt of Claude Code
// activated. By default the events of activations hide the name of the skill, but
// the model requests that follow have it.
type maskedClue struct {
	Prompt string // the group: a prompt in a session
	Kind   clueKind
	ID     string // of the report
	Order  int64  // of the event in its session
	Skill  string // "" if the event hides it
	// Observation is that of an activation whose name is hidden, without the skill.
	// Its mode is that of the other kinds, too.
	skills.Observation
}

// A clueKind is the kind of a report.
type clueKind int

// The kinds of clues.
const (
	activation   clueKind = iota // an event, whether or not it names the skill
	dedupRequest                 // a model request that names the skill that is active
	dedupRecord                  // an activation that an import reports; it has no order
)

// maskedPrompt is the stored state of a group.
type maskedPrompt struct {
	Activations []maskedEvent `json:"activations"` // by order
	Requests    []maskedEvent `json:"requests"`    // by order
	Records     []maskedEvent `json:"records"`
	Revision    int64         `json:"revision"`
}

type maskedEvent struct {
	ID      string `json:"id"`
	Order   int64  `json:"order,omitempty"`
	Skill   string `json:"skill,omitempty"`
	At      int64  `json:"at,omitempty"`
	Mode    string `json:"mode,omitempty"`
	Session string `json:"session,omitempty"` // its hash
}

// maxClues bounds each list of a group. Later ones are not used.
const maxClues = 1000

// An unmasked activation is one whose name is hidden, with the skill that it was.
type unmasked struct {
	skill string
	at    int64
	void  bool // an import reports it, or another activation turned out to be of this skill
}

// countMasked returns the activations whose names are hidden as observations of the skill
// that the requests of their prompt name, as far as those are known. Whatever arrives
// first, the result is that of all clues together.
func countMasked(ctx context.Context, tx *store.Tx, c access.Caller, clues []maskedClue) (counted []skills.Observation,
	err error,
) {
	ids := make([]string, len(clues))
	for i, clue := range clues {
		ids[i] = clue.Prompt
	}
	prompts, err := lockStates[maskedPrompt](ctx, tx, c, ids)
	if err != nil {
		return nil, err
	}
	before := map[string]map[string]unmasked{}
	for id, p := range prompts {
		before[id] = p.unmask()
	}
	for _, clue := range clues {
		prompts[clue.Prompt].add(c, clue)
	}
	for id, p := range prompts {
		counted = append(counted, p.changes(before[id])...)
	}
	return counted, updateStates(ctx, tx, prompts)
}

// add stores a clue, once.
func (p *maskedPrompt) add(c access.Caller, clue maskedClue) {
	list := []*[]maskedEvent{&p.Activations, &p.Requests, &p.Records}[clue.Kind]
	known := slices.ContainsFunc(*list, func(e maskedEvent) bool { return e.ID == clue.ID })
	if known || len(*list) == maxClues {
		return
	}
	e := maskedEvent{ID: clue.ID, Order: clue.Order, Skill: clue.Skill, Mode: clue.Mode}
	if clue.Kind == activation {
		e.At, e.Session = store.Micros(clue.At), skills.SessionHash(c.UserID, clue.Session)
	}
	at, _ := slices.BinarySearchFunc(*list, e, func(a, b maskedEvent) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.ID, b.ID))
	})
	*list = slices.Insert(*list, at, e)
}

// unmask finds the skills of the hidden activations, by their ids: each is that of the
// first request after it that names another skill than the activation before it, and
// that comes after the request that named the hidden one before.
func (p *maskedPrompt) unmask() map[string]unmasked {
	type told struct {
		skill    string
		explicit bool
	}
	records := map[told]int{}
	for _, r := range p.Records {
		records[told{r.Skill, r.Mode == "explicit"}]++
	}
	found := map[string]unmasked{}
	last, used := "", 0
	for _, a := range p.Activations {
		if a.Skill != "" {
			last = a.Skill
			continue
		}
		i := slices.IndexFunc(p.Requests[used:], func(r maskedEvent) bool { return r.Order > a.Order && r.Skill != last })
		if i < 0 {
			continue
		}
		last, used = p.Requests[used+i].Skill, used+i+1
		key := told{last, a.Mode == "explicit"}
		found[a.ID] = unmasked{skill: last, at: a.At, void: records[key] > 0}
		records[key]--
	}
	return found
}

// changes returns the observations of the hidden activations that are other ones than
// before. Each is newer than those before, so that it replaces them.
func (p *maskedPrompt) changes(before map[string]unmasked) (all []skills.Observation) {
	now := p.unmask()
	for _, a := range p.Activations {
		was, ok := before[a.ID]
		is, known := now[a.ID]
		switch {
		case !known && !ok, known && ok && was == is:
			continue
		case !known: // another activation is that of the skill
			is = was
			is.void = true
		}
		p.Revision++
		all = append(all, a.observation(is, p.Revision))
	}
	return all
}

func (a maskedEvent) observation(is unmasked, revision int64) skills.Observation {
	o := skills.Observation{
		ID: a.ID, SkillName: is.skill, SessionHash: a.Session, Triggered: true, At: time.UnixMicro(is.at).UTC(), Void: is.void,
	}
	o.NormalizedAt = o.At.Add(time.Duration(revision) * time.Microsecond)
	return withMode(o, a.Mode)
}

// withMode gives an activation the mode that OTLP reports, and its confidence.
func withMode(o skills.Observation, mode string) skills.Observation {
	explicit, inferred := 1.0, 0.6
	switch o.Mode = mode; mode {
	case "explicit":
		o.Confidence = &explicit
	case "inferred":
		o.Confidence, o.Derived = &inferred, true
	}
	return o
}
