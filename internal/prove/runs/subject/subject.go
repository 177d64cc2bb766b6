// Package subject finds the skill that a run is about: a snapshot of a source or a
// version of the registry, the one before it, and the skills that it competes with.
// It owns no tables.
package subject

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// A Finder looks up skills.
type Finder struct {
	Sources  *sources.Service
	Registry *registry.Service
}

// A Ref names the skill that a run is about: a source, which means its
// current snapshot, a snapshot, or an entry of the registry with a version or
// its current one.
type Ref struct {
	SourceID   string `json:"source_id,omitempty"` // without its prefix
	SnapshotID string `json:"snapshot_id,omitempty"`
	EntryID    string `json:"entry_id,omitempty"`
	Version    string `json:"version,omitempty"`
}

// A Skill is a skill that a run can test: a version of the registry or a snapshot.
type Skill struct {
	Name, Description string
	ContentHash       string
	Label             string // its version, to be shown; may be empty
	SourceID          string // the cloud source that it comes from, or ""
	// Pin refers to exactly this content, also when there is a newer version.
	Pin Ref
	// Open reads the content. The caller closes the package.
	Open func(ctx context.Context) (*skillpkg.Package, error)
	// file reads one file of it.
	file func(ctx context.Context, path string) ([]byte, error)
}

// A Pinned is the skill of a run as the run stores it.
type Pinned struct {
	Ref         // as the caller named it
	Name string `json:"name"`
	// ContentHash is the hash of the tested content, which never changes.
	ContentHash string `json:"content_hash"`
	Label       string `json:"label,omitempty"`
	// Pin refers to exactly that content.
	Pin Ref `json:"pin"`
	// Requires are the skills that it requires.
	Requires []Required `json:"requires,omitempty"`
}

// Pin returns the form in which a run stores the skill that was found for a reference.
func Pin(ref Ref, skill Skill) Pinned {
	return Pinned{Ref: ref, Name: skill.Name, ContentHash: skill.ContentHash, Label: skill.Label, Pin: skill.Pin}
}

// Find looks up the skill that a reference names. The error is a NotFound
// if there is none, a Denied for the source of another organisation, and a
// Conflict for a snapshot that failed its validation.
func (f Finder) Find(ctx context.Context, orgID string, ref Ref) (Skill, error) {
	if ref.EntryID != "" {
		e, v, err := f.Registry.Find(ctx, orgID, ref.EntryID, ref.Version)
		return f.skillOfVersion(e, v), err
	}
	snapshot, err := f.Sources.Snapshot(ctx, orgID, ref.SourceID, ref.SnapshotID)
	if err != nil {
		return Skill{}, err
	}
	if !snapshot.Runnable {
		return Skill{}, fault.New(fault.Conflict,
			"The validation of snapshot %s failed; fix the skill and upload it again", snapshot.ID)
	}
	return f.skillOfSnapshot(snapshot), nil
}

// FindPinned looks up the content that a run was started with. The error is a NotFound
// if it no longer exists.
func (f Finder) FindPinned(ctx context.Context, orgID string, pinned Pinned) (Skill, error) {
	skill, err := f.Find(ctx, orgID, pinned.Pin)
	if err != nil {
		return skill, err
	}
	if skill.ContentHash != pinned.ContentHash {
		return skill, fault.New(fault.NotFound, "the content of %s has changed since the run", skill.Name)
	}
	return skill, nil
}

// Previous looks up the version or snapshot before the one that ref pins. The error is
// a NotFound if there is none.
func (f Finder) Previous(ctx context.Context, orgID string, ref Ref) (Skill, error) {
	if ref.EntryID != "" {
		e, v, err := f.Registry.Find(ctx, orgID, ref.EntryID, ref.Version)
		if err != nil {
			return Skill{}, err
		}
		v, err = f.Registry.Before(ctx, f.Registry.DB, v)
		return f.skillOfVersion(e, v), err
	}
	snapshot, err := f.Sources.Snapshot(ctx, orgID, ref.SourceID, ref.SnapshotID)
	if err != nil {
		return Skill{}, err
	}
	snapshot, err = f.Sources.Previous(ctx, snapshot)
	return f.skillOfSnapshot(snapshot), err
}

func (f Finder) skillOfVersion(e registry.Entry, v registry.Version) Skill {
	return Skill{
		Name: e.Name, Description: v.Description, ContentHash: v.ContentHash, Label: v.Version,
		Pin:  Ref{EntryID: e.ID, Version: v.Version},
		Open: func(ctx context.Context) (*skillpkg.Package, error) { return f.Registry.Open(ctx, v) },
		file: func(ctx context.Context, path string) ([]byte, error) { return f.Registry.File(ctx, v, path) },
	}
}

func (f Finder) skillOfSnapshot(snapshot sources.Snapshot) Skill {
	return Skill{
		Name: snapshot.SkillName, Description: snapshot.Description, ContentHash: snapshot.ContentHash,
		SourceID: snapshot.SourceID,
		Pin:      Ref{SourceID: snapshot.SourceID, SnapshotID: snapshot.ID},
		Open:     func(ctx context.Context) (*skillpkg.Package, error) { return f.Sources.OpenSnapshot(ctx, snapshot) },
		file:     func(ctx context.Context, path string) ([]byte, error) { return f.Sources.FileOf(ctx, snapshot, path) },
	}
}

// MaxSeed keeps seeds exact in every JSON parser: numbers are float64 in many.
const MaxSeed = 1 << 53

// NewSeed returns a seed for the random choices of a run. It is no secret.
func NewSeed() int64 { return rand.Int64N(MaxSeed) }

// maxDistractors is how many of the organisation's skills are considered as
// distractors.
const maxDistractors = 100

// Distractors returns other skills of the organisation that a router could choose
// instead of the named one. The same seed and skills make the same choice.
func (f Finder) Distractors(ctx context.Context, orgID, name string, seed int64) ([]judge.Skill, error) {
	listed, _, err := f.Registry.List(ctx, orgID, registry.Filter{Page: store.Page{Limit: maxDistractors}})
	if err != nil {
		return nil, err
	}
	var others []judge.Skill
	for _, l := range listed {
		if l.Name != name && l.Type == registry.TypeSkill {
			others = append(others, judge.Skill{Name: l.Name, Description: l.Description})
		}
	}
	return judge.Distractors(others, name, seed), nil
}

// Read reads the content of a skill and the text of its SKILL.md. The caller
// closes the package, which is nil with an error.
func (skill Skill) Read(ctx context.Context) (_ *skillpkg.Package, text string, err error) {
	defer fault.Wrap(&err, "content of %s", skill.Name)
	content, err := skill.Open(ctx)
	if err != nil {
		return nil, "", err
	}
	if err := content.RequireSkill(); err != nil {
		return nil, "", errors.Join(err, content.Close())
	}
	raw, err := content.ReadFile(content.SkillPath)
	if err != nil {
		return nil, "", errors.Join(err, content.Close())
	}
	return content, string(raw), nil
}

// Text reads the skill's SKILL.md.
func (skill Skill) Text(ctx context.Context) (string, error) {
	if raw, err := skill.file(ctx, "SKILL.md"); !fault.Is(err, fault.NotFound) {
		return string(raw), err
	}
	content, text, err := skill.Read(ctx) // the file may be called skill.md
	if err != nil {
		return "", err
	}
	return text, content.Close()
}
