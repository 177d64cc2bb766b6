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

// lockStatus is the command `whetstone status --lock`.
type lockStatus struct {
	Paths  []string // of lock files, or of folders that have some
	Report bool     // write what is found to the installation records
}

type lockFileOutput struct {
	File    string            `json:"file"`
	Client  lockfiles.Client  `json:"client"`
	Secrets []string          `json:"secrets"` // kinds of credentials in the file's addresses
	Skills  []lockSkillOutput `json:"skills"`
}

type lockSkillOutput struct {
	Name          string `json:"name"`
	Plugin        string `json:"plugin,omitempty"` // that the skill is in, with others
	Status        string `json:"status"`
	Version       string `json:"version"`
	LatestVersion string `json:"latest_version"`
	EntryID       string `json:"entry_id"`
	Organisation  string `json:"organisation"`
	MatchedBy     string `json:"matched_by"`
	Source        string `json:"source"` // without credentials
	Path          string `json:"path"`
	Recorded      bool   `json:"recorded"` // the server has a record of the installation

	contentHash string // what is installed, for the record
}

// Run compares what lock files say with the registry.
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

// compareLocks asks about each skill twice: by what its lock file says, and by the files
// that are really there.
func compareLocks(ctx context.Context, s *server.Session, files []lockFile) ([]lockFileOutput, error) {
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
			out[i].Skills = append(out[i].Skills, r.output(answers[0], answers[1]))
			answers = answers[2:]
		}
	}
	return out, nil
}

func (r lockRow) queries(address string) []skillQuery {
	byLock := skillQuery{
		Name: lockfiles.Fit(r.Name), Organisation: lockfiles.Fit(r.Organisation), Version: lockfiles.Fit(r.Version),
		EntryID: lockfiles.Fit(r.EntryID), Hashes: r.Hashes, FromHere: r.FromHere(address),
	}
	byFiles := skillQuery{Name: byLock.Name, Organisation: byLock.Organisation, EntryID: byLock.EntryID}
	if r.digest != "" {
		byFiles.Hashes = []lockfiles.Hash{{Kind: string(treehash.ClawHub), Hex: r.digest}}
	}
	return []skillQuery{byLock, byFiles}
}

// output joins what the lock file and what the files of a skill say. The files are
// right: whoever edits a skill leaves the lock file as it is.
func (r lockRow) output(byLock, byFiles foundSkill) lockSkillOutput {
	f, hash := byLock, byLock.ContentHash
	switch {
	case byLock.EntryID == "" || byFiles.EntryID == byLock.EntryID && byFiles.Version != "":
		if byFiles.EntryID != "" {
			f, hash = byFiles, byFiles.ContentHash
		}
	case r.digest != "": // the entry has no such files
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

// drifts reports whether something is to be done.
func (o lockSkillOutput) drifts() bool { return o.Status != lockUpToDate && o.Status != unknown }

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

// rotateCommand says what to do about credentials in a lock file, which is meant for version
// control.
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
