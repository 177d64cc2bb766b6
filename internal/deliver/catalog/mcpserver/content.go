package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// A skillContent is what a version has for hosts. Versions never change, so it is always
// right.
type skillContent struct {
	files       []skillpkg.ManifestEntry // by path
	frontmatter json.RawMessage
	name        string // in SKILL.md
	problem     error  // why there is no frontmatter, or nil
}

const (
	// contentSize and fileSize are what a content and each of its files take beside
	// their texts.
	contentSize, fileSize = 200, 120
	// coldSize is what reading a version from the database takes at most, mostly.
	coldSize = 100 << 10
)

// contents returns what versions have, by version id: from memory, or by one query.
func (s *Service) contents(ctx context.Context, list []registry.Listed) (map[string]*skillContent, error) {
	all := make(map[string]*skillContent, len(list))
	byID := map[string]registry.Version{}
	var missing []string
	for _, l := range list {
		if c, ok := s.skills.Get(l.Current.ID); ok {
			all[l.Current.ID] = c
			continue
		}
		byID[l.Current.ID] = l.Current
		missing = append(missing, l.Current.ID)
	}
	if len(missing) == 0 {
		return all, nil
	}
	release, err := s.Memory.Reserve(ctx, int64(len(missing))*coldSize)
	if err != nil {
		return nil, err
	}
	defer release()
	stored, err := registry.FilesOf(ctx, s.DB, missing)
	if err != nil {
		return nil, err
	}
	for _, v := range stored {
		c := &skillContent{files: v.Manifest, problem: errNoSkillFile}
		size := int64(contentSize)
		for _, f := range v.Manifest {
			size += fileSize + int64(len(f.Path))
			if f.Path != skillFile {
				continue
			}
			if v.SkillMD == nil { // a large one
				if v.SkillMD, err = s.Registry.ReadFile(ctx, byID[v.VersionID], f); err != nil {
					return nil, fault.New(fault.Unavailable, "An archive cannot be read now").Because(err)
				}
			}
			c.frontmatter, c.name, c.problem = frontmatter(v.SkillMD)
		}
		s.skills.Put(v.VersionID, c, size+int64(len(c.frontmatter)))
		all[v.VersionID] = c
	}
	return all, nil
}

// unlisted says why hosts would refuse a skill, nil if they would not.
func (c *skillContent) unlisted(name string) error {
	switch {
	case c.problem != nil:
		return c.problem
	case name == versionMark:
		return errReserved
	case c.name != name: // the last folder of its address must have its name
		return errName
	}
	return nil
}
