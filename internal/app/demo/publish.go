package demo

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// published is a skill in the registry.
type published struct {
	skill
	entry  registry.Entry
	hashes []string // of its releases
}

// publish creates an entry for every skill, with all its releases.
func (f *filling) publish(ctx context.Context) error {
	for i, s := range read[[]skill]("skills.yaml") {
		p := &published{skill: s}
		author := f.people[i%3]
		for number := range s.Releases {
			if err := f.release(ctx, p, number, author); err != nil {
				return err
			}
		}
		f.skills = append(f.skills, p)
	}
	return nil
}

// release publishes one version, and rolls it back if it is marked as undone.
func (f *filling) release(ctx context.Context, p *published, number int, author access.Caller) (err error) {
	r := p.Releases[number]
	defer fault.Wrap(&err, "%s %s", p.Name, r.Version)
	pkg, err := open(ctx, p.files(number))
	if err != nil {
		return err
	}
	defer pkg.Close()
	archive, err := pkg.Repack(ctx, skillpkg.TarGz)
	if err != nil {
		return err
	}
	defer archive.Close()
	publication := registry.Publication{
		OrgID: author.OrgID, UserID: author.UserID, Name: p.Name, Type: registry.TypeSkill, Visibility: registry.Org,
		Version: r.Version, ChangeSummary: &r.Summary, Source: registry.FromCLI,
		Archive: archive, Size: archive.Size(), At: f.dayStart(r.DaysAgo),
	}
	var v registry.Version
	if number == 0 {
		p.entry, v, err = f.Registry.Create(ctx, publication)
	} else {
		p.entry, v, _, err = f.Registry.Push(ctx, p.entry.ID, publication)
	}
	if err != nil {
		return err
	}
	p.hashes = append(p.hashes, v.ContentHash)
	if r.Undone == 0 {
		return nil
	}
	result, err := f.Release.Rollback(ctx, p.entry.ID, release.NewRollback{
		OrgID: author.OrgID, UserID: author.UserID, Reason: &r.Reason, At: f.dayStart(r.Undone),
	})
	p.entry = result.Entry
	return err
}

// install records installations: most have the current version, some an older one,
// and one has local edits.
func (f *filling) install(ctx context.Context) error {
	for i, p := range f.skills {
		for j, who := range f.people {
			if (i+j)%3 == 2 || p.OnlySessions > 0 && j > 0 {
				continue
			}
			n := installations.New{
				EntryID: p.entry.ID, DeviceID: fmt.Sprintf("laptop-%d", j+1),
				InstallPath: ".claude/skills/" + p.Name, ContentHash: p.entry.CurrentHash,
			}
			switch {
			case (i+2*j)%5 == 4:
				n.ContentHash = p.hashes[0]
			case i == 3 && j == 0:
				n.ContentHash = strings.Repeat("ed", sha256.Size) // of no release: edited by hand
			}
			if _, err := f.Installations.Install(ctx, who, n); err != nil {
				return fmt.Errorf("%s for %s: %w", p.Name, who.Name, err)
			}
		}
	}
	return nil
}
