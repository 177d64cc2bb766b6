package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/Masterminds/semver/v3"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

type pushCommand struct {
	remote     `embed:""`
	Dir        string `arg:"" optional:"" default:"." help:"Folder of the skill; this one when empty."`
	Name       string `env:"-" help:"Name of the entry; the one in SKILL.md when empty."`
	Version    string `env:"-" help:"Version to push; the one in SKILL.md when empty, else the next patch of the newest."`
	Message    string `env:"-" short:"m" help:"What has changed."`
	Visibility string `env:"-" enum:",public,org,unlisted" default:"" placeholder:"org" help:"Who may see a new entry: public, org or unlisted."`
	Type       string `env:"-" enum:"skill,agent,command,hook,bundle" default:"skill" help:"What the entry is: ${enum}."`
	SourceRepo string `env:"-" placeholder:"OWNER/REPO" help:"Repository that the skill comes from."`
	DryRun     bool   `env:"-" help:"Print what would be sent, and send nothing."`
}

// A parcel is a packed folder, checked and ready to be sent.
type parcel struct {
	*skillpkg.Packed
	archive []byte
	name    string
	version string // what SKILL.md says, or ""
}

// Run packs a folder, checks it, and publishes it as an entry or a version.
func (c *pushCommand) Run(ctx context.Context, p *Program) error {
	pack, err := c.pack(ctx, p)
	if err != nil {
		return err
	}
	if c.DryRun {
		return p.printParcel(pack, cmp.Or(c.Version, pack.version))
	}
	return c.with(p, func(s *session) error {
		out, err := c.publish(ctx, p, s, pack)
		if err != nil {
			return err
		}
		return p.print(out, func(w io.Writer) { fmt.Fprintln(w, out.sentence()) })
	})
}

// A packedFolder is a folder as an archive, and what the server will see in it.
type packedFolder struct {
	*skillpkg.Packed
	archive []byte
	pkg     *skillpkg.Package
}

func (f packedFolder) close() { _ = f.pkg.Close() } // it was only read

// packFolder packs a folder and reads the archive back the way the server
// will: what the server would refuse is refused here.
func packFolder(ctx context.Context, dir string) (packedFolder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return packedFolder{}, fault.Invalid("dir", "dir: %s", err)
	}
	defer func() { _ = root.Close() }() // it was only read
	var archive bytes.Buffer
	limits := skillpkg.DefaultLimits()
	packed, err := skillpkg.Pack(ctx, root.FS(), &archive, skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: limits})
	if err != nil {
		return packedFolder{}, err
	}
	pkg, err := skillpkg.Open(ctx, bytes.NewReader(archive.Bytes()), packed.Size, limits)
	return packedFolder{packed, archive.Bytes(), pkg}, err
}

// pack makes a parcel of the folder.
func (c *pushCommand) pack(ctx context.Context, p *Program) (*parcel, error) {
	folder, err := packFolder(ctx, c.Dir)
	if err != nil {
		return nil, err
	}
	defer folder.close()
	out := &parcel{Packed: folder.Packed, archive: folder.archive, name: c.Name}
	skill, err := folder.pkg.Skill()
	if err != nil && c.Type == "skill" {
		return nil, err
	}
	if err == nil {
		if err := c.check(p, skill); err != nil {
			return nil, err
		}
		out.name, out.version = cmp.Or(c.Name, skill.Name), versionOf(skill)
	}
	if out.name == "" {
		return nil, fault.Invalid("name", "name must be given with --name: there is no SKILL.md to take it from")
	}
	return out, nil
}

// check wants of a SKILL.md what agents want of it.
func (c *pushCommand) check(p *Program, skill skillpkg.Skill) error {
	var issues []fault.Issue
	if skill.Name == "" && c.Name == "" {
		issues = append(issues, fault.At("name", "SKILL.md has no name; add a line `name: ...` to its frontmatter"))
	}
	if skill.Description == "" && c.Type == "skill" {
		issues = append(issues, fault.At("description", "SKILL.md has no description; add a line `description: ...` to its frontmatter"))
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	if c.Name != "" && skill.Name != "" && c.Name != skill.Name {
		p.note("SKILL.md calls the skill %s; agents expect it to have the name of its folder, which will be %s", skill.Name, c.Name)
	}
	return nil
}

// versionOf is the version that a SKILL.md gives itself: metadata.version, or
// version, as some write.
func versionOf(skill skillpkg.Skill) string {
	if v := skill.Metadata["version"]; v != "" {
		return v
	}
	for _, f := range skill.Extra() {
		if v, ok := f.Value.(string); ok && f.Key == "version" {
			return v
		}
	}
	return ""
}

func (c *pushCommand) publish(ctx context.Context, p *Program, s *session, pack *parcel) (pushOutput, error) {
	entry, err := s.EntryByName(ctx, pack.name)
	if client.Status(err) == http.StatusNotFound {
		u := c.upload(p, pack, cmp.Or(c.Version, pack.version, "1.0.0"))
		made, err := s.CreateEntry(ctx, u.Upload)
		u.clear()
		if client.Status(err) != http.StatusConflict {
			return newPushOutput("created", made, pack), err
		}
		// Somebody has made it in the meantime.
		if entry, err = s.EntryByName(ctx, pack.name); err != nil {
			return pushOutput{}, err
		}
		return c.pushTo(ctx, p, s, entry, pack)
	}
	if err != nil {
		return pushOutput{}, err
	}
	return c.pushTo(ctx, p, s, entry, pack)
}

// pushTo adds a version to an entry, unless it has this content already.
func (c *pushCommand) pushTo(ctx context.Context, p *Program, s *session, entry client.ListedEntry, pack *parcel) (pushOutput, error) {
	if err := c.checkEntry(entry.Entry); err != nil {
		return pushOutput{}, err
	}
	current := entry.CurrentVersion
	if current != nil && current.ContentHash == pack.ContentHash && (c.Version == "" || c.Version == current.Version) {
		same := client.Publication{Entry: entry.Entry, Version: client.Version{Version: current.Version, ContentHash: current.ContentHash, IsCurrent: true}}
		return newPushOutput("unchanged", same, pack), nil
	}
	version := cmp.Or(c.Version, pack.version)
	if version == "" {
		versions, err := s.Versions(ctx, entry.ID)
		if err != nil {
			return pushOutput{}, err
		}
		version = nextVersion(versions)
	}
	u := c.upload(p, pack, version)
	pushed, err := s.PushVersion(ctx, entry.ID, u.Upload)
	u.clear()
	if err != nil {
		return pushOutput{}, err
	}
	status := "pushed"
	if !pushed.Created {
		status = "exists"
	}
	return newPushOutput(status, pushed, pack), nil
}

// checkEntry refuses flags that a push would silently ignore.
func (c *pushCommand) checkEntry(e client.Entry) error {
	if e.EntryType != c.Type {
		return fault.Invalid("type", "%s is there as %s %s; say so with --type %s, or take another --name", e.Name, article(e.EntryType), e.EntryType, e.EntryType)
	}
	if c.Visibility != "" && c.Visibility != e.Visibility {
		return fault.Invalid("visibility", "%s is there with the visibility %s, which a push does not change; leave --visibility out", e.Name, e.Visibility)
	}
	return nil
}

func article(noun string) string {
	if noun == "agent" {
		return "an"
	}
	return "a"
}

// nextVersion is the patch after the newest release. Versions of a code host's
// branches and names that are no versions do not count.
func nextVersion(versions []client.Version) string {
	var newest *semver.Version
	for _, v := range versions {
		parsed, err := semver.NewVersion(v.Version)
		if err != nil || parsed.Prerelease() != "" {
			continue
		}
		if newest == nil || parsed.GreaterThan(newest) {
			newest = parsed
		}
	}
	if newest == nil {
		return "1.0.0"
	}
	next := newest.IncPatch()
	return next.String()
}

// A shownUpload is an upload with a bar that shows how far it has come.
type shownUpload struct {
	client.Upload
	*meter
}

func (c *pushCommand) upload(p *Program, pack *parcel, version string) shownUpload {
	manifest := make([]client.File, len(pack.Files))
	for i, f := range pack.Files {
		manifest[i] = client.File{Path: f.Path, Hash: f.SHA256, Size: f.Size}
	}
	bar := p.meter("Sending "+plain(pack.name), 1)
	progress := bar.part()
	return shownUpload{client.Upload{
		Name: pack.name, EntryType: c.Type, Version: version, ChangeSummary: c.Message, Visibility: c.Visibility,
		SourceRepo: c.SourceRepo, ContentHash: pack.ContentHash, FileManifest: manifest,
		Archive: bytes.NewReader(pack.archive), Size: pack.Size,
		Progress: func(sent int64) { progress(sent, pack.Size) },
	}, bar}
}

type pushOutput struct {
	Status      string   `json:"status"` // created, pushed, unchanged or exists
	EntryID     string   `json:"entry_id"`
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	IsCurrent   bool     `json:"is_current"`
	ContentHash string   `json:"content_hash"`
	Size        int64    `json:"size"`
	Files       int      `json:"files"`
	LeftOut     []string `json:"left_out"`
}

func newPushOutput(status string, made client.Publication, pack *parcel) pushOutput {
	return pushOutput{
		Status: status, EntryID: made.Entry.ID, Name: made.Entry.Name, Version: made.Version.Version,
		IsCurrent: made.Version.IsCurrent, ContentHash: made.Version.ContentHash,
		Size: pack.Size, Files: len(pack.Files), LeftOut: append([]string{}, pack.LeftOut...),
	}
}

func (o pushOutput) sentence() string {
	name := plain(o.Name + " " + o.Version)
	what := fmt.Sprintf("%s, %s, SHA-256 %s", count(o.Files, "file"), size(o.Size), o.ContentHash)
	switch {
	case o.Status == "created":
		return fmt.Sprintf("Created %s (%s).", name, what)
	case o.Status == "pushed":
		return fmt.Sprintf("Pushed %s (%s).", name, what)
	case o.IsCurrent:
		return fmt.Sprintf("Unchanged: %s has this content (%s).", name, what)
	}
	return fmt.Sprintf("%s was there with this content, but another version is current; `whetstone rollback` makes it current again.", name)
}

type parcelOutput struct {
	Name        string                   `json:"name"`
	Version     string                   `json:"version"` // empty: the next patch
	ContentHash string                   `json:"content_hash"`
	Size        int64                    `json:"size"`
	Files       []skillpkg.ManifestEntry `json:"files"`
	LeftOut     []string                 `json:"left_out"`
}

func (p *Program) printParcel(pack *parcel, version string) error {
	out := parcelOutput{
		Name: pack.name, Version: version, ContentHash: pack.ContentHash, Size: pack.Size,
		Files: []skillpkg.ManifestEntry{}, LeftOut: append([]string{}, pack.LeftOut...),
	}
	for _, f := range pack.Files {
		out.Files = append(out.Files, skillpkg.ManifestEntry{Path: f.Path, Hash: f.SHA256, Size: f.Size})
	}
	return p.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "%s %s, nothing sent:\n", plain(out.Name), plain(cmp.Or(out.Version, "(next patch)")))
		for _, f := range out.Files {
			fmt.Fprintf(w, "  %s\t%s\n", plain(f.Path), size(f.Size))
		}
		for _, path := range out.LeftOut {
			fmt.Fprintf(w, "  %s\tleft out\n", plain(path))
		}
		fmt.Fprintf(w, "%s, %s packed, SHA-256 %s\n", count(len(out.Files), "file"), size(out.Size), out.ContentHash)
	})
}
