package telemetry

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A sighting is an activation as one signal tells of it. Other signals tell of
// the same one, and not all of them know its tool call; but in a group (a skill
// in one prompt) every signal tells of every activation. So a group had as many
// activations as the signal told of that told of the most.
type sighting struct {
	skills.Observation
	group string
	face  face
}

// A face is the signal by which an activation shows itself.
type face string

// The faces. Only a call has an alias.
const (
	faceCall   face = "call"
	faceEvent  face = "event"
	faceResult face = "result"
	faceSpan   face = "span"
	faceUse    face = "use"
)

// slots are the activations of a group, in the order in which they came. Each
// has at most one sighting of each face.
type slots struct {
	// Faces are the sightings of each face: the n-th belongs to the n-th
	// activation.
	Faces map[face][]string `json:"faces"`
	// IDs are what the activations go by: the first sighting without a call;
	// "" while there is none.
	IDs []string `json:"ids"`
}

// maxSlots bounds what is remembered of a group. No prompt uses a skill that
// often; what comes after is counted by itself.
const maxSlots = 1000

// place finds the activation of a sighting: its own if it came before, else
// the first that its face has not shown.
func (s *slots) place(f face, name string) (slot int, ok bool) {
	slot = slices.Index(s.Faces[f], name)
	if slot >= 0 {
		return slot, true
	}
	if slot = len(s.Faces[f]); slot == maxSlots {
		return 0, false
	}
	if s.Faces == nil {
		s.Faces = map[face][]string{}
	}
	s.Faces[f] = append(s.Faces[f], name)
	if slot == len(s.IDs) {
		s.IDs = append(s.IDs, "")
	}
	return slot, true
}

// settle gives a sighting the names by which all sightings of its activation
// find each other: one id, and the alias of the call if it is known. Whatever
// came under other names before is drawn in by these.
func (s *slots) settle(seen sighting) skills.Observation {
	o := seen.Observation
	name := o.ID
	if seen.face == faceCall {
		name = o.Aliases[0]
	}
	slot, ok := s.place(seen.face, name)
	if !ok {
		return o
	}
	if seen.face != faceCall && s.IDs[slot] == "" {
		s.IDs[slot] = o.ID
	}
	if s.IDs[slot] != "" {
		o.ID = s.IDs[slot]
	}
	if calls := s.Faces[faceCall]; slot < len(calls) {
		o.Aliases = calls[slot : slot+1]
	}
	return o
}

// pair turns sightings into observations, one for each activation however many
// signals tell of it, and in whatever order.
func pair(ctx context.Context, tx *store.Tx, c access.Caller, sightings []sighting) ([]skills.Observation, error) {
	groups, err := lockStates[slots](ctx, tx, c, each(sightings, func(s sighting) string { return s.group }))
	if err != nil {
		return nil, err
	}
	observations := each(sightings, func(s sighting) skills.Observation { return groups[s.group].settle(s) })
	return observations, writeStates(ctx, tx, groups)
}
