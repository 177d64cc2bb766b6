package versions

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/lockfiles"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
)

// lockStatus is the command `whetstone status --lock`: it reads lock files of any
// client. It works without an installation by whetstone: other clients write lock
// files, too.
type lockStatus struct {
	Paths  []string // lock files, or folders with some
	Report bool     // record what is found as installed on this device
}

// lockFileOutput is a lock file as --json prints it. Secrets names kinds only: the
// credentials themselves are never printed.
type lockFileOutput struct {
	File    string            `json:"file"`
	Client  lockfiles.Client  `json:"client"`
	Secrets []string          `json:"secrets"` // kinds of credentials in the addresses of the file
	Skills  []lockSkillOutput `json:"skills"`
}

// lockSkillOutput is a skill of a lock file, compared with the registry. EntryID and
// Organisation are "" for a skill that the registry does not know.
type lockSkillOutput struct {
	Name          string `json:"name"`
	Plugin        string `json:"plugin,omitempty"` // the plugin that it is in with other skills, or ""
	Status        string `json:"status"`
	Version       string `json:"version"`
	LatestVersion string `json:"latest_version"`
	EntryID       string `json:"entry_id"`
	Organisation  string `json:"organisation"`
	MatchedBy     string `json:"matched_by"`
	Source        string `json:"source"` // without credentials
	Path          string `json:"path"`
	Recorded      bool   `json:"recorded"` // whether the server has a record of the installation

	contentHash string // hash of what is installed, for the record
}

// Run compares the skills of lock files with the registry. Without a lock file it needs
// no login. Skills that are not from this server do not count as drift.
func (c lockStatus) Run(ctx context.Context, p *term.Program, flags *server.Flags) error {
	files, err := readAll(c.Paths)
	if err != nil {
		return err
	}
	out := []lockFileOutput{}
	if len(files) > 0 {
		err = flags.WithSession(p, func(s *server.Session) error {
			if out, err = compareLocks(ctx, s, files); err != nil || !c.Report {
				return err
			}
			return recordLocks(ctx, s, out)
		})
		if err != nil {
			return err
		}
	}
	if err := p.Print(out, func(w io.Writer) { c.print(w, out) }); err != nil {
		return err
	}
	for _, f := range out {
		// Lock files are committed to repositories, so credentials in them are as good
		// as published.
		for _, kind := range f.Secrets {
			p.Note("%s or a file that belongs to it has %s in an address: %s", f.File, kind, rotateCommand(kind))
		}
	}
	// What this server cannot know is not drift.
	if slices.ContainsFunc(out, func(f lockFileOutput) bool { return slices.ContainsFunc(f.Skills, lockSkillOutput.drifts) }) {
		return term.ExitCode(term.ExitOutdated)
	}
	return nil
}

// compareLocks asks about each skill twice, in one request: by the entry of its lock
// file, and by the hash of the files that are really there.
func compareLocks(ctx context.Context, s *server.Session, files []lockFile) ([]lockFileOutput, error) {
	// All skills of all files in one request, whose limit is that of a sync.
	var queries []skillQuery
	rows := make([][]lockRow, len(files))
	for i, f := range files {
		rows[i] = f.rows(ctx)
		for _, r := range rows[i] {
			queries = append(queries, r.queries(s.Server)...)
		}
	}
	answers, err := resolveSkills(ctx, s, queries)
	if err != nil {
		return nil, err
	}
	out := make([]lockFileOutput, len(files))
	for i, f := range files {
		out[i] = lockFileOutput{
			File: f.path, Client: f.Client, Secrets: append([]string{}, f.Secrets...),
			Skills: []lockSkillOutput{},
		}
		for _, r := range rows[i] {
			// The answers are in the order of the queries, two for each row.
			out[i].Skills = append(out[i].Skills, r.output(answers[0], answers[1]))
			answers = answers[2:]
		}
	}
	return out, nil
}

// queries returns the two queries for a row: by what the lock file has, and by the
// files.
func (r lockRow) queries(address string) []skillQuery {
	byLock := skillQuery{
		Name: lockfiles.Fit(r.Name), Organisation: lockfiles.Fit(r.Organisation), Version: lockfiles.Fit(r.Version),
		EntryID: lockfiles.Fit(r.EntryID), Hashes: r.Hashes, FromHere: r.FromHere(address),
	}
	// Without a digest, e.g. of a folder that is missing, it matches nothing.
	byFiles := skillQuery{Name: byLock.Name, Organisation: byLock.Organisation, EntryID: byLock.EntryID}
	if r.digest != "" {
		byFiles.Hashes = []lockfiles.Hash{{Kind: string(treehash.ClawHub), Hex: r.digest}}
	}
	return []skillQuery{byLock, byFiles}
}

// output joins the answers to the two queries. The files take precedence: editing a
// skill does not change the lock file.
func (r lockRow) output(byLock, byFiles foundSkill) lockSkillOutput {
	f, hash := byLock, byLock.ContentHash
	switch {
	// The lock file matches no entry, or the files are a version of the same entry.
	case byLock.EntryID == "" || byFiles.EntryID == byLock.EntryID && byFiles.Version != "":
		if byFiles.EntryID != "" {
			f, hash = byFiles, byFiles.ContentHash
		}
	// The entry has no version with these files: they were edited.
	case r.digest != "":
		f.State, hash = lockModified, r.digest
	}
	if f.State == lockModified && r.digest == "" && len(r.Hashes) > 0 {
		hash = r.Hashes[0].Hex
	}
	return lockSkillOutput{
		Name: r.Name, Plugin: r.plugin, Status: f.State, Version: cmp.Or(f.Version, r.Version), LatestVersion: f.LatestVersion,
		EntryID: f.EntryID, Organisation: f.Organisation, MatchedBy: f.MatchedBy, Source: r.Source, Path: r.path,
		contentHash: hash,
	}
}

// drifts reports whether there is something to do about the skill.
func (o lockSkillOutput) drifts() bool { return o.Status != lockUpToDate && o.Status != unknown }

// print prints a table per lock file, and how to update with the client that wrote
// it. Each client updates its own files: whetstone must not change them.
func (c lockStatus) print(w io.Writer, out []lockFileOutput) {
	if len(out) == 0 {
		fmt.Fprintf(w, "No lock file in %s\n", term.Plain(strings.Join(c.Paths, ", ")))
		return
	}
	for i, f := range out {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s (%s)\n", term.Plain(f.File), f.Client)
		if len(f.Skills) == 0 {
			fmt.Fprintln(w, "Nothing is installed")
			continue
		}
		fmt.Fprintln(w, "NAME\tCLIENT\tINSTALLED\tCURRENT\tSTATUS")
		for _, o := range f.Skills {
			name := o.Name
			if o.Plugin != "" {
				name = o.Plugin + ": " + name
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", term.Cell(name), f.Client, cmp.Or(term.Cell(o.Version), "-"),
				cmp.Or(term.Cell(o.LatestVersion), "-"), o.statusText())
		}
		if slices.ContainsFunc(f.Skills, lockSkillOutput.drifts) {
			fmt.Fprintf(w, "To update: %s\n", f.Client.Update())
		}
	}
}

// statusText formats the status for people.
func (o lockSkillOutput) statusText() string {
	switch o.Status {
	case lockModified:
		return "changed locally"
	case unknown:
		if o.EntryID != "" {
			return "unknown version"
		}
		return "not from this server"
	}
	return strings.ReplaceAll(o.Status, "_", " ")
}

// rotateCommand returns advice on a credential in a lock file, which is meant for
// version control. kind is one that lockfiles reports.
func rotateCommand(kind string) string {
	switch kind {
	case "a catalog token":
		return "anyone who reads the file can read the organisation's skills; `whetstone catalog-token list` shows the token, " +
			"`whetstone catalog-token rotate ID` replaces it"
	case "an API key":
		return "anyone who reads the file can use it; revoke it in the settings, and install with a token of `whetstone " +
			"catalog-token create`"
	}
	return "change it, and keep it out of addresses"
}
