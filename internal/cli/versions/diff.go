package versions

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
)

// diffCommand compares two versions, or a version with a folder. Which two sides are
// meant depends on the arguments, see ofVersions and withFolder.
type diffCommand struct {
	server.Flags `embed:""`
	Name         string `arg:"" names:"entries" help:"Name or id of the entry."`
	From         string `arg:"" optional:"" help:"The older version; the one that was pushed before the newer one when empty. With --dir, the version to compare the folder with."`
	To           string `arg:"" optional:"" help:"The newer version; the current one when empty."`
	Dir          string `env:"-" placeholder:"DIR" help:"Compare with the skill in this folder, e.g. before a push."`
}

// Help is shown below the description of the command.
func (diffCommand) Help() string {
	return "Exit codes: 0 done, whether there are changes or not; 1 failed; 2 a flag is not valid."
}

// diffOutput is the diff as --json prints it; Diff is unified, and "" without a change.
type diffOutput struct {
	EntryID string `json:"entry_id"`
	Name    string `json:"name"`
	From    string `json:"from"`
	To      string `json:"to"` // the folder with --dir
	Diff    string `json:"diff"`
}

// Run prints a unified diff. Like git diff it exits with 0 whether there are changes or
// not.
func (c *diffCommand) Run(ctx context.Context, p *term.Program) error {
	if c.Dir != "" && c.To != "" {
		return fault.Invalid("to", "with --dir name one version at most")
	}
	return c.WithSession(p, func(s *server.Session) error {
		entry, err := s.OwnEntry(ctx, c.Name)
		if err != nil {
			return err
		}
		// For the defaults, and for the hash that a download is verified by.
		versions, err := s.Versions(ctx, entry.ID)
		if err != nil {
			return err
		}
		out := diffOutput{EntryID: entry.ID, Name: entry.Name, From: c.From, To: c.To}
		if c.Dir != "" {
			err = out.withFolder(ctx, s, versions, c.Dir)
		} else {
			err = out.ofVersions(ctx, s, versions)
		}
		if err != nil {
			return err
		}
		return p.Print(out, func(w io.Writer) {
			if out.Diff == "" {
				fmt.Fprintf(w, "%s and %s have the same files.\n", term.Plain(out.From), term.Plain(out.To))
				return
			}
			term.PrintDiff(w, out.Diff, p.Colour())
		})
	})
}

// ofVersions asks the server for the diff of two versions: by default the current one
// and the one before it.
func (o *diffOutput) ofVersions(ctx context.Context, s *server.Session, versions []client.Version) error {
	if o.To == "" {
		o.To = currentVersion(versions)
	}
	if o.From == "" {
		o.From = versionBefore(versions, o.To)
	}
	if o.From == "" || o.To == "" {
		return fault.New(fault.NotFound, "%s has only one version; `whetstone diff %s --dir .` compares a folder with it",
			term.Plain(o.Name), term.Plain(o.Name))
	}
	var diff []byte
	path := "/api/v1/registry/" + url.PathEscape(o.EntryID) + "/versions/" + url.PathEscape(o.To) +
		"/diff?from=" + url.QueryEscape(o.From)
	err := s.Call(ctx, http.MethodGet, path, nil, &diff)
	o.Diff = string(diff)
	return err
}

// withFolder compares a version with a folder, packed as a push would send it. The diff
// is computed here, from the downloaded version: the folder is not uploaded.
func (o *diffOutput) withFolder(ctx context.Context, s *server.Session, versions []client.Version, dir string) error {
	if o.From == "" {
		o.From = currentVersion(versions)
	}
	// As it was typed, since it stands in the output.
	o.To = dir
	hash := ""
	for _, v := range versions {
		if v.Version == o.From {
			hash = v.ContentHash
		}
	}
	if hash == "" {
		return fault.New(fault.NotFound, "%s has no version %s", term.Plain(o.Name), term.Plain(o.From))
	}
	packed, err := server.PackFolder(ctx, dir)
	if err != nil {
		return err
	}
	defer packed.Close()
	// The hash makes sure that what is compared is what was published.
	archive, err := s.DownloadVersion(ctx, o.EntryID, o.From, client.Wanted{ContentHash: hash})
	if err != nil {
		return err
	}
	// Stored versions may have names that are refused today.
	old, err := skillpkg.Open(ctx, bytes.NewReader(archive), int64(len(archive)), skillpkg.StoredLimits())
	if err != nil {
		return err
	}
	defer func() { _ = old.Close() }() // opened for reading only
	// The plan names the files that differ; only their contents are read.
	plan := compare.NewPlan(old.Manifest(), packed.Package.Manifest())
	contents := map[string][]byte{}
	if err := readContents(ctx, old, plan.Before, contents); err != nil {
		return err
	}
	if err := readContents(ctx, packed.Package, plan.After, contents); err != nil {
		return err
	}
	diff, err := plan.Diff(ctx, contents)
	o.Diff = string(diff)
	return err
}

// readContents adds the contents of the wanted files of a package to contents, by their
// SHA-256. The keys of wanted are digests.
func readContents(ctx context.Context, pkg *skillpkg.Package, wanted map[string]int64, contents map[string][]byte) error {
	return pkg.Walk(ctx, func(f skillpkg.File, r io.Reader) error {
		if _, ok := wanted[f.SHA256]; !ok {
			return nil
		}
		content, err := io.ReadAll(r)
		contents[f.SHA256] = content
		return err
	})
}

// currentVersion returns the version that is current, or "" if none is.
func currentVersion(versions []client.Version) string {
	for _, v := range versions {
		if v.IsCurrent {
			return v.Version
		}
	}
	return ""
}

// versionBefore returns the version that was pushed before another one, or "" for the
// first and for an unknown one. The list is newest first.
func versionBefore(versions []client.Version, version string) string {
	for i, v := range versions {
		if v.Version == version && i+1 < len(versions) {
			return versions[i+1].Version
		}
	}
	return ""
}
