package versions

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/quality"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// pushCommand has the flags of `whetstone push`. Flags that are empty take the value
// of SKILL.md or the server's default.
type pushCommand struct {
	server.Flags `embed:""`
	Trusted      trustedFlags  `embed:""`
	Dir          string        `arg:"" optional:"" default:"." help:"Folder of the skill; the current one when empty."`
	Name         string        `env:"-" help:"Name of the entry; the one in SKILL.md when empty."`
	Version      string        `env:"-" help:"Version to push; the one in SKILL.md when empty, else the next patch of the newest."`
	Message      string        `env:"-" short:"m" help:"Summary of the change."`
	Visibility   string        `env:"-" enum:",public,org,unlisted" default:"" placeholder:"VISIBILITY" help:"Who may see a new entry: public, org or unlisted."`
	Type         string        `env:"-" enum:"skill,agent,command,hook,bundle" default:"skill" help:"What the entry is: ${enum}."`
	SourceRepo   string        `env:"-" placeholder:"OWNER/REPO" help:"Repository that the skill comes from."`
	DryRun       bool          `env:"-" help:"Print what would be sent, and send nothing."`
	Wait         bool          `env:"-" help:"Wait until a candidate has passed its gate and its approvals, and is current."`
	WaitFor      time.Duration `env:"-" default:"30m" placeholder:"DURATION" help:"Longest time to wait, e.g. 2h."`
}

// Help is shown below the help of the command.
func (c pushCommand) Help() string {
	return c.Flags.Help() + `

With --wait: 0 the version is current; 1 its gate blocked it, or somebody rejected or withdrew it; ` +
		`3 its gate is inconclusive; 4 it still waits for a gate or for approvals when the time is over; ` +
		`130 Ctrl-C, and the gate goes on.`
}

// A publication is a packed folder, checked and ready to be sent. The archive is in
// memory, since a retry sends it again; its size is limited.
type publication struct {
	*skillpkg.Packed
	archive []byte
	name    string
	version string // the version in SKILL.md, or ""
}

// Run packs a folder, checks it, and publishes it as a new entry or version. A dry run
// needs neither a server nor a key. Pushing again is idempotent, so an interrupted push
// is repeated.
func (c *pushCommand) Run(ctx context.Context, p *term.Program) error {
	pack, err := c.pack(ctx, p)
	if err != nil {
		return err
	}
	// Before any login, so that it works offline.
	if c.DryRun {
		return printDryRun(p, pack, cmp.Or(c.Version, pack.version))
	}
	if wanted, err := c.Trusted.wanted(&c.Flags); err != nil {
		return err
	} else if wanted {
		return c.publishTrusted(ctx, p, pack)
	}
	return c.WithSession(p, func(s *server.Session) error {
		out, err := c.publish(ctx, p, s, pack)
		if err != nil && ctx.Err() != nil {
			return p.Interrupted("it is not known whether %s was published; `whetstone history %s` shows it, and pushing "+
				"again is safe", pack.name, pack.name)
		}
		if err != nil {
			return err
		}
		// On standard error: standard output has only the result.
		noteWarnings(p, out.Warnings)
		out.URL = s.Page("registry", out.EntryID, "versions", out.Version)
		if c.Wait && out.Status == "candidate" {
			return c.wait(ctx, p, s, out)
		}
		return p.Print(out, func(w io.Writer) { fmt.Fprintf(w, "%s\n%s\n", out.sentence(), out.URL) })
	})
}

// wait follows a candidate until it is current or will not become so, and exits with
// the code of the outcome.
func (c *pushCommand) wait(ctx context.Context, p *term.Program, s *server.Session, out pushOutput) error {
	name := term.Plain(out.Name + " " + out.Version)
	outcome, why, err := quality.Wait(ctx, p, s, quality.Candidate{
		EntryID: out.EntryID, Name: out.Name, Version: out.Version, Most: c.WaitFor,
	})
	if err != nil && ctx.Err() != nil {
		return p.Interrupted("%s stays a candidate, and its gate and approvals go on: `whetstone approvals %s` shows them",
			name, name)
	}
	if err != nil {
		return err
	}
	out.Outcome, out.Why, out.IsCurrent = string(outcome), why, outcome == quality.Current
	err = p.Print(out, func(w io.Writer) {
		if out.IsCurrent {
			fmt.Fprintf(w, "%s is current.\n%s\n", name, out.URL)
			return
		}
		fmt.Fprintf(w, "%s is not current (%s): %s.\n`whetstone approvals %s` and `whetstone gates list %s` say more.\n%s\n",
			name, outcome, term.Cell(why), name, term.Plain(out.Name), out.URL)
	})
	if err != nil {
		return err
	}
	return outcome.Code()
}

// publishTrusted adds a version with the key of a workflow run. That key reads nothing,
// so the grant has the entry, and the next version is the next patch of the current
// one.
func (c *pushCommand) publishTrusted(ctx context.Context, p *term.Program, pack *publication) error {
	grant, err := c.Trusted.exchange(ctx, p, &c.Flags, pack.name)
	if err != nil {
		return err
	}
	entry := listedEntry(grant.Entry)
	if pack.version == "" && entry.CurrentVersion != nil {
		pack.version = nextVersion([]client.Version{{Version: entry.CurrentVersion.Version}})
	}
	c.SourceRepo = cmp.Or(c.SourceRepo, grant.Entry.Repository)
	out, err := c.pushVersion(ctx, p, grant.Session, entry, pack)
	if err != nil {
		return server.AsFault(err, grant.Server)
	}
	return p.Print(out, func(w io.Writer) { fmt.Fprintln(w, out.sentence()) })
}

// pack packs and checks the folder. Only the type skill needs a SKILL.md; other types
// need a name instead.
func (c *pushCommand) pack(ctx context.Context, p *term.Program) (*publication, error) {
	packed, err := server.PackFolder(ctx, c.Dir)
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	out := &publication{Packed: packed.Packed, archive: packed.Archive, name: c.Name}
	skill, err := packed.Package.Skill()
	// Other types may have a SKILL.md, too, e.g. a bundle.
	if err != nil && c.Type == "skill" {
		return nil, err
	}
	if err == nil {
		if err := c.checkSkill(p, skill); err != nil {
			return nil, err
		}
		out.name, out.version = cmp.Or(c.Name, skill.Name), versionOf(skill)
	}
	if out.name == "" {
		return nil, fault.Invalid("name", "name must be given with --name: there is no SKILL.md to take it from")
	}
	return out, nil
}

// checkSkill requires the fields of a SKILL.md without which no agent loads it. It
// notes a name that differs from --name, which is allowed.
func (c *pushCommand) checkSkill(p *term.Program, skill skillpkg.Skill) error {
	var issues []fault.Issue
	if skill.Name == "" && c.Name == "" {
		issues = append(issues, fault.At("name", "SKILL.md has no name; add a line `name: ...` to its frontmatter"))
	}
	if skill.Description == "" && c.Type == "skill" {
		issues = append(issues, fault.At("description",
			"SKILL.md has no description; add a line `description: ...` to its frontmatter"))
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	if c.Name != "" && skill.Name != "" && c.Name != skill.Name {
		p.Note("SKILL.md names the skill %s; agents expect the name of its folder, which will be %s", skill.Name, c.Name)
	}
	return nil
}

// versionOf returns the version in a SKILL.md's frontmatter: metadata.version of the
// specification, or a top-level version, which is common too; else "".
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

// publish creates the entry, or adds a version to it. Which of the two is decided by
// the server's reply and not by a flag, so that CI can push without knowing.
func (c *pushCommand) publish(ctx context.Context, p *term.Program, s *server.Session, pack *publication) (pushOutput, error) {
	entry, err := s.EntryByName(ctx, pack.name)
	if client.Status(err) == http.StatusNotFound {
		// 1.0.0 is the first version unless SKILL.md or a flag says otherwise.
		u := c.upload(p, pack, cmp.Or(c.Version, pack.version, "1.0.0"))
		made, createErr := s.CreateEntry(ctx, u.Upload)
		u.Clear()
		if client.Status(createErr) != http.StatusConflict {
			return newPushOutput("created", made, pack), createErr
		}

		entry, err = s.EntryByName(ctx, pack.name)
	}
	if err != nil {
		return pushOutput{}, err
	}
	return c.pushVersion(ctx, p, s, entry, pack)
}

// pushVersion adds a version to an entry, unless its current version already has this
// content: a push without changes is idempotent, and makes no new patch.
func (c *pushCommand) pushVersion(
	ctx context.Context, p *term.Program, s *server.Session, entry client.ListedEntry, pack *publication,
) (pushOutput, error) {
	// Reject flags that a push would silently ignore: type and visibility
	// belong to the entry and not to a version.
	if entry.EntryType != c.Type {
		return pushOutput{}, fault.Invalid("type", "%s already exists as %s %s; use --type %s or another --name",
			entry.Name, article(entry.EntryType), entry.EntryType, entry.EntryType)
	}
	if c.Visibility != "" && c.Visibility != entry.Visibility {
		return pushOutput{}, fault.Invalid("visibility",
			"%s already exists with the visibility %s, which a push does not change; omit --visibility",
			entry.Name, entry.Visibility)
	}
	current := entry.CurrentVersion
	// Packing is reproducible, so equal files have equal hashes.
	if current != nil && current.ContentHash == pack.ContentHash && (c.Version == "" || c.Version == current.Version) {
		same := client.Version{Version: current.Version, ContentHash: current.ContentHash, IsCurrent: true}
		return newPushOutput("unchanged", client.Publication{Entry: entry.Entry, Version: same}, pack), nil
	}
	version := cmp.Or(c.Version, pack.version)
	if version == "" {
		// Two machines that push at once may pick the same number. Versions are
		// immutable, so the second one gets a conflict, and nothing is lost.
		versions, err := s.Versions(ctx, entry.ID)
		if err != nil {
			return pushOutput{}, err
		}
		version = nextVersion(versions)
	}
	// With hashes, so that the server refuses bytes that changed on the way.
	u := c.upload(p, pack, version)
	pushed, err := s.PushVersion(ctx, entry.ID, u.Upload)
	u.Clear()
	if err != nil {
		return pushOutput{}, err
	}
	status := "pushed"
	// Another version of the entry has this content: the server returns that one.
	if !pushed.Created {
		status = "exists"
	}
	return newPushOutput(status, pushed, pack), nil
}

// article returns the indefinite article of an entry type.
func article(noun string) string {
	if noun == "agent" {
		return "an"
	}
	return "a"
}

// nextVersion returns the next patch of the newest release, or 1.0.0 without one.
// Prereleases, which pushes to branches make, and names that are not semantic versions
// do not count. The comparison is by semantic version and not by time: an old branch
// may be pushed last.
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

// A pushUpload is an upload with the progress bar that shows it.
type pushUpload struct {
	client.Upload
	*term.Transfer
}

// upload returns the request to send. Its bar must be cleared when the request is
// done. The manifest says what the server should find in the archive.
func (c *pushCommand) upload(p *term.Program, pack *publication, version string) pushUpload {
	manifest := make([]client.File, len(pack.Files))
	for i, f := range pack.Files {
		manifest[i] = client.File{Path: f.Path, Hash: f.SHA256, Size: f.Size}
	}
	bar := p.Transfer("Sending "+term.Plain(pack.name), 1)
	progress := bar.Item()
	return pushUpload{client.Upload{
		Name: pack.name, EntryType: c.Type, Version: version, ChangeSummary: c.Message, Visibility: c.Visibility,
		SourceRepo: c.SourceRepo, ContentHash: pack.ContentHash, FileManifest: manifest,
		Archive: bytes.NewReader(pack.archive), Size: pack.Size,
		Progress: func(sent int64) { progress(sent, pack.Size) },
	}, bar}
}

// pushOutput is the result of a push as --json prints it.
type pushOutput struct {
	Status      string   `json:"status"` // created, pushed, unchanged, exists or candidate
	EntryID     string   `json:"entry_id"`
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	IsCurrent   bool     `json:"is_current"`
	ContentHash string   `json:"content_hash"`
	Size        int64    `json:"size"`
	Files       int      `json:"files"`
	LeftOut     []string `json:"left_out"` // never null: scripts iterate over it
	Warnings    []string `json:"warnings,omitempty"`
	URL         string   `json:"url,omitempty"`     // page of the version
	Outcome     string   `json:"outcome,omitempty"` // what became of a candidate, with --wait
	Why         string   `json:"why,omitempty"`     // why it is not current
}

// newPushOutput returns the result; a version that the server holds back is a
// candidate, whatever status is.
func newPushOutput(status string, made client.Publication, pack *publication) pushOutput {
	if made.Version.State == "candidate" {
		status = "candidate"
	}
	return pushOutput{
		Status: status, EntryID: made.Entry.ID, Name: made.Entry.Name, Version: made.Version.Version,
		IsCurrent: made.Version.IsCurrent, ContentHash: made.Version.ContentHash,
		Size: pack.Size, Files: len(pack.Files), LeftOut: append([]string{}, pack.LeftOut...),
		Warnings: made.Warnings,
	}
}

// sentence formats the result for people.
func (o pushOutput) sentence() string {
	name := term.Plain(o.Name + " " + o.Version)
	what := fmt.Sprintf("%s, %s, SHA-256 %s", term.Count(o.Files, "file"), term.Size(o.Size), o.ContentHash)
	switch {
	case o.Status == "candidate":
		return fmt.Sprintf("%s is a candidate (%s): `whetstone gates list %s` and `whetstone approvals %s` say what it "+
			"waits for.", name, what, term.Plain(o.Name), name)
	case o.Status == "created":
		return fmt.Sprintf("Created %s (%s).", name, what)
	case o.Status == "pushed":
		return fmt.Sprintf("Pushed %s (%s).", name, what)
	case o.IsCurrent:
		return fmt.Sprintf("Unchanged: %s already has this content (%s).", name, what)
	}
	return fmt.Sprintf("%s already has this content, but another version is current; "+
		"`whetstone rollback` makes it current again.", name)
}

// dryRunOutput is what a push would send, as --json prints it. It has what the
// server would get, and nothing that only the server knows.
type dryRunOutput struct {
	Name        string                   `json:"name"`
	Version     string                   `json:"version"` // "" means the next patch, which only the server knows
	ContentHash string                   `json:"content_hash"`
	Size        int64                    `json:"size"`
	Files       []skillpkg.ManifestEntry `json:"files"`
	LeftOut     []string                 `json:"left_out"`
}

// printDryRun prints the files that a push would send and those that it leaves out.
func printDryRun(p *term.Program, pack *publication, version string) error {
	out := dryRunOutput{
		Name: pack.name, Version: version, ContentHash: pack.ContentHash, Size: pack.Size,
		Files: []skillpkg.ManifestEntry{}, LeftOut: append([]string{}, pack.LeftOut...),
	}
	for _, f := range pack.Files {
		out.Files = append(out.Files, skillpkg.ManifestEntry{Path: f.Path, Hash: f.SHA256, Size: f.Size})
	}
	return p.Print(out, func(w io.Writer) {
		fmt.Fprintf(w, "%s %s, nothing sent:\n", term.Plain(out.Name), term.Plain(cmp.Or(out.Version, "(next patch)")))
		for _, f := range out.Files {
			fmt.Fprintf(w, "  %s\t%s\n", term.Plain(f.Path), term.Size(f.Size))
		}
		for _, path := range out.LeftOut {
			fmt.Fprintf(w, "  %s\tleft out\n", term.Plain(path))
		}
		fmt.Fprintf(w, "%s, %s packed, SHA-256 %s\n", term.Count(len(out.Files), "file"), term.Size(out.Size), out.ContentHash)
	})
}
