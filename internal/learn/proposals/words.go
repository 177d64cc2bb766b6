package proposals

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/rewrite"
)

// skillFile is the file that proposals change.
const skillFile = "SKILL.md"

// maxSkillMD is the size of the largest SKILL.md that proposals are made for, in
// bytes. Longer ones are no instructions, but manuals.
const maxSkillMD = 64 << 10

// Words are the current SKILL.md of a skill, and where it is from: the current
// version of its entry or, outside the registry, the newest snapshot of a source. The registry wins
// over sources: its current version is what people have installed.
type Words struct {
	EntryID, Version string
	SourceID         string
	SkillMD          string
	parsed           skillpkg.Skill
}

// Digest is that of a SKILL.md, as Change.BaseDigest has it. It is the same hash that snapshots
// store for their files, so the two can be compared.
func Digest(skillMD string) string {
	sum := sha256.Sum256([]byte(skillMD))
	return hex.EncodeToString(sum[:])
}

// Words returns the current words of a skill. It is NotFound if there are none that
// can be changed. A SKILL.md that can't be parsed or is too long counts as none.
func (s *Service) Words(ctx context.Context, orgID, skillID string) (w Words, err error) {
	defer fault.Wrap(&err, "words of skill %s", skillID)
	entries, err := registry.LineagesOfSkills(ctx, s.DB, orgID, []string{skillID})
	if err != nil {
		return w, err
	}
	var text []byte
	if l, ok := entries[skillID]; ok {
		w.EntryID, w.Version = l.EntryID, l.Current
		_, v, err := s.Registry.Find(ctx, orgID, l.EntryID, l.Current)
		if err != nil {
			return w, err
		}
		text, err = s.Registry.File(ctx, v, skillFile)
		if err != nil {
			return w, err
		}
	} else if w.SourceID, text, err = s.newestSource(ctx, orgID, skillID); err != nil {
		return w, err
	}
	if w.parsed, err = skillpkg.ParseSkill(text); err != nil || len(text) > maxSkillMD {
		return w, fault.New(fault.NotFound, "The SKILL.md of the skill cannot be read, or is larger than %d KiB",
			maxSkillMD>>10).Because(err)
	}
	w.SkillMD = string(text)
	return w, nil
}

// newestSource returns the SKILL.md of the newest of a skill's sources that has one.
func (s *Service) newestSource(ctx context.Context, orgID, skillID string) (id string, text []byte, err error) {
	of, err := s.Sources.List(ctx, orgID, sources.Filter{SkillID: skillID})
	if err != nil {
		return "", nil, err
	}
	ids := make([]string, len(of))
	for i, src := range of {
		ids[i] = src.ID
	}
	snapshots, err := s.Sources.Current(ctx, s.DB, orgID, ids)
	if err != nil {
		return "", nil, err
	}
	for _, id := range ids { // newest first
		snapshot, ok := snapshots[id]
		if !ok {
			continue
		}
		text, err := s.Sources.FileOf(ctx, snapshot, skillFile)
		if !fault.Is(err, fault.NotFound) {
			return id, text, err
		}
	}
	return "", nil, fault.New(fault.NotFound, "The skill is neither in the registry nor in a cloud source")
}

// value is the part of a SKILL.md that clients of a type know.
func (t Type) value(skill skillpkg.Skill) *string {
	if t == Description {
		return &skill.Description
	}
	return &skill.Body
}

// change makes the words what a value says: the whole description, or the whole body.
// What a proposal of both says about the description stays. The current frontmatter stays, apart
// from the description.
func (w Words) change(of Target, value, before string) (c Change, err error) {
	c = Change{
		EntryID: w.EntryID, BaseVersion: w.Version, SourceID: w.SourceID, BaseDigest: Digest(w.SkillMD), Edits: []Edit{},
	}
	switch {
	case of == TargetDescription:
		c.SkillMD, err = rewrite.Description(w.SkillMD, value)
	case of == TargetBoth && before != "":
		skill, err := skillpkg.ParseSkill([]byte(before))
		if err != nil {
			return c, err
		}
		if c.SkillMD, err = rewrite.Description(w.SkillMD, skill.Description); err != nil {
			return c, err
		}
		c.SkillMD, err = rewrite.Body(c.SkillMD, value)
		if err != nil {
			return c, err
		}
	default:
		c.SkillMD, err = rewrite.Body(w.SkillMD, value)
	}
	if err == nil {
		c.Diff = string(compare.Texts(skillFile, w.SkillMD, c.SkillMD))
	}
	return c, err
}

// checkChange refuses a SKILL.md with errors that the one before does not have. Errors that the
// skill has anyway don't keep a person from improving it.
func checkChange(ctx context.Context, before, after string) error {
	if len(after) > maxSkillMD {
		return fault.Invalid("proposed_value", "proposed_value makes SKILL.md larger than %d KiB", maxSkillMD>>10)
	}
	had, err := problemsOf(ctx, before)
	if err != nil {
		return err
	}
	has, err := problemsOf(ctx, after)
	if err != nil {
		return err
	}
	var issues []fault.Issue
	for _, problem := range has {
		if !slices.Contains(had, problem) {
			issues = append(issues, fault.At("proposed_value", "%s", problem))
		}
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// problemsOf returns what is wrong with a SKILL.md by itself.
func problemsOf(ctx context.Context, skillMD string) (problems []string, err error) {
	pkg, err := skillpkg.FromParts(ctx, []skillpkg.Part{skillpkg.TextPart(skillFile, skillMD)}, skillpkg.DefaultLimits())
	if err != nil {
		return nil, err
	}
	defer pkg.Close()
	report, err := lint.Check(ctx, pkg)
	for _, f := range report.Findings {
		if f.Severity == lint.Error {
			problems = append(problems, strings.TrimSpace(f.Message+" "+f.Remediation))
		}
	}
	return problems, err
}

// checkValue refuses what cannot be a value of any skill. PostgreSQL can't store NUL in text.
func checkValue(value string) error {
	switch {
	case strings.TrimSpace(value) == "":
		return fault.Invalid("proposed_value", "proposed_value must not be empty")
	case len(value) > maxSkillMD:
		return fault.Invalid("proposed_value", "proposed_value must have at most %d KiB", maxSkillMD>>10)
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return fault.Invalid("proposed_value", "proposed_value must be UTF-8 text without NUL")
	}
	return nil
}

// markStale says of each proposal that awaits a decision or a change whether its
// words have changed since it was made. It reads all texts of a page with two queries. Proposals of
// unknown origin are never stale.
func (s *Service) markStale(ctx context.Context, q store.Querier, orgID string, all []Proposal) error {
	var entries, from []string
	for _, p := range all {
		switch {
		case p.settled():
		case p.EntryID != "":
			entries = append(entries, p.EntryID)
		case p.SourceID != "":
			from = append(from, p.SourceID)
		}
	}
	if len(entries) == 0 && len(from) == 0 {
		return nil
	}
	texts, err := registry.EntryTexts(ctx, q, orgID, entries)
	if err != nil {
		return err
	}
	snapshots, err := s.Sources.Current(ctx, q, orgID, from)
	if err != nil {
		return err
	}
	for i := range all {
		p := &all[i]
		switch {
		case p.settled():
		case p.EntryID != "":
			now, ok := texts[p.EntryID]
			p.Stale = p.staleInRegistry(now, ok)
		case p.SourceID != "":
			now, ok := snapshots[p.SourceID]
			file, err := now.File(skillFile)
			// An approved proposal whose words the source already has isn't stale: a client has
			// pushed them.
			if !ok || err != nil || file.SHA256 != p.BaseDigest && (p.Status != Approved || file.SHA256 != Digest(p.SkillMD)) {
				p.Stale = "The cloud source has another SKILL.md than this was made for"
			}
		}
	}
	return nil
}

// settled reports whether nothing is to be done with the proposal any more.
func (p Proposal) settled() bool { return p.Status == Rejected || p.Status == Applied }

// staleInRegistry compares texts and not versions: a new version with the same SKILL.md, e.g. with
// another script, leaves the proposal as it is.
func (p Proposal) staleInRegistry(now registry.EntryText, found bool) string {
	switch {
	case !found:
		return "The skill has no current version in the registry any more"
	case now.Version == p.BaseVersion || p.BaseDigest != "" && Digest(now.SkillMD) == p.BaseDigest || p.says(now.SkillMD):
		return ""
	}
	return fmt.Sprintf("It was made for the words of version %s, and version %s has others", p.BaseVersion, now.Version)
}

// says reports whether a SKILL.md has what was approved already: a client pushes the
// words first, and reports then that it has applied them.
func (p Proposal) says(skillMD string) bool {
	if p.Status != Approved || p.ProposedValue == nil {
		return false
	}
	skill, err := skillpkg.ParseSkill([]byte(skillMD))
	return err == nil && *p.Type.value(skill) == *p.ProposedValue
}
