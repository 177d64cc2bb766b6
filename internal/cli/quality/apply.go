package quality

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// proposalApply has the flags of `proposal apply`. The same change can go three
// ways: to the registry, to the code host, or to a folder.
type proposalApply struct {
	proposalID `embed:""`
	As         string `env:"-" enum:"version,pull-request,patch," default:"" help:"version (the gate lets it pass or holds it), pull-request or patch; version when empty, patch with --dir."`
	Dir        string `env:"-" placeholder:"DIR" help:"Folder of the skill to change in place; the patch is printed when empty."`
	DryRun     bool   `env:"-" help:"Only show what would be done."`
}

// Help is shown below the description of the command.
func (proposalApply) Help() string {
	return "Exit codes: 0 done; 1 failed, e.g. the proposal is stale or the folder has other words; 2 a flag is not valid; " +
		"5 not permitted."
}

// Run applies a proposal: as a version, as a pull request, or as a patch of the text in
// a folder.
func (c *proposalApply) Run(ctx context.Context, p *term.Program) error {
	switch {
	case c.As == "" && c.Dir != "":
		c.As = "patch"
	case c.As == "":
		c.As = "version"
	case c.As != "patch" && c.Dir != "":
		return fault.Invalid("dir", "--dir is for --as patch")
	}
	return c.with(ctx, p, func(s *server.Session) error {
		a, err := s.Proposal(ctx, c.ID)
		if err != nil {
			return err
		}
		var local *patched
		if c.Dir != "" {
			// Before the server is asked: if the text in the folder does not match,
			// nothing changes on either side.
			if local, err = patchFolder(c.Dir, a); err != nil {
				return err
			}
		}
		// After the folder was compared, so that a dry run also finds a mismatch.
		if c.DryRun {
			return p.Print(a, func(w io.Writer) { c.explain(w, a, p.Colour()) })
		}
		a, patch, err := s.ApplyProposal(ctx, c.ID, strings.ReplaceAll(c.As, "-", "_"))
		if err != nil {
			return err
		}
		// The folder is changed last: the server may still refuse, e.g. a stale
		// proposal.
		if local != nil {
			if err := local.write(); err != nil {
				return err
			}
		}
		return p.Print(a, func(w io.Writer) { c.report(w, a, patch) })
	})
}

// explain prints what the command would do, for --dry-run.
func (c *proposalApply) explain(w io.Writer, a api.Proposal, colour bool) {
	switch {
	case c.As == "version":
		fmt.Fprintf(w, "This would push a version of %s with this change; its gate lets it pass or holds it.\n",
			term.Plain(a.SkillName))
	case c.As == "pull-request":
		fmt.Fprintf(w, "This would open a pull request for %s with this change.\n", term.Plain(a.SkillName))
	case c.Dir != "":
		fmt.Fprintf(w, "This would change %s:\n", filepath.Join(c.Dir, skillFile))
	}
	if a.Diff != nil {
		term.PrintDiff(w, *a.Diff, colour)
	}
}

// report prints what was done, and what to do next.
func (c *proposalApply) report(w io.Writer, a api.Proposal, patch string) {
	switch {
	case c.Dir != "":
		fmt.Fprintf(w, "Changed %s; `whetstone push %s` publishes it.\n", filepath.Join(c.Dir, skillFile), c.Dir)
	case c.As == "patch":
		fmt.Fprint(w, patch)
	case a.Outcome == nil:
		fmt.Fprintf(w, "The proposal is %s.\n", a.Status)
	default:
		printProposalOutcome(w, a, *a.Outcome)
		fmt.Fprintf(w, "\n`whetstone proposal show %s` says what becomes of it.\n", a.ID)
	}
}

// skillFile is the file of a skill that proposals change.
const skillFile = "SKILL.md"

// patched is a file with its new content, which is not written yet. The split makes
// it possible to check everything before anything is written.
type patched struct {
	path string
	mode os.FileMode
	text string
}

// patchFolder applies the diff of a proposal to the SKILL.md of a folder, in memory. A
// file that does not match the diff is a conflict.
func patchFolder(dir string, a api.Proposal) (*patched, error) {
	if a.Diff == nil {
		return nil, fault.New(fault.Conflict, "The proposal has no text to apply")
	}
	path := filepath.Join(dir, skillFile)
	info, err := os.Stat(path)
	if err != nil {
		return nil, server.FolderError(dir, err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		return nil, server.FolderError(dir, err)
	}
	after, err := applyDiff(string(before), *a.Diff)
	if err != nil {
		return nil, fault.New(fault.Conflict, "%s does not match the text of the proposal (%s): %s; nothing was changed", path,
			term.OrDash(a.BaseVersion), err)
	}
	return &patched{path, info.Mode().Perm(), after}, nil
}

// write replaces the file with a rename, so that a crash leaves the old or the new one,
// and keeps its permissions.
func (f *patched) write() error {
	// In the same folder: a rename must not cross file systems.
	temp, err := os.CreateTemp(filepath.Dir(f.path), ".SKILL-*.md")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // fails once it is renamed
	if _, err := temp.WriteString(f.text); err != nil {
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	if err := os.Chmod(temp.Name(), f.mode); err != nil {
		return err
	}
	return os.Rename(temp.Name(), f.path)
}

// hunkHead matches the head of a hunk, e.g. "@@ -3,7 +3,8 @@". Its groups are the first
// line and the number of lines in the old text.
var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@`)

// applyDiff applies a unified diff of one file. It is strict, without the fuzz of
// patch(1): every line that the diff keeps or removes must be exactly where the diff
// has it. Only line ends may differ (CRLF). A proposal that no longer fits must
// fail, not end up in another place.
func applyDiff(text, diff string) (string, error) {
	old := slices.Collect(strings.Lines(text))
	var out strings.Builder
	at := 0 // number of old lines that were copied or dropped
	inHunk, added := false, false
	for line := range strings.Lines(diff) {
		if head := hunkHead.FindStringSubmatch(line); head != nil {
			start, err := strconv.Atoi(head[1])
			if err != nil {
				return "", err
			}
			// A hunk that only adds lines names the line before it, any other one its
			// first line.
			if head[2] != "0" {
				start--
			}
			// Hunks are in order, and must not overlap.
			if start < at || start > len(old) {
				return "", fmt.Errorf("it has no line %d", start+1)
			}
			out.WriteString(strings.Join(old[at:start], ""))
			at, inHunk = start, true
			continue
		}
		if !inHunk {
			continue // the lines with the names of the file
		}
		switch line[0] {
		case '+':
			out.WriteString(line[1:])
		case ' ', '-':
			if at >= len(old) || strings.TrimRight(old[at], "\r\n") != strings.TrimRight(line[1:], "\r\n") {
				return "", fmt.Errorf("line %d differs", at+1)
			}
			if line[0] == ' ' {
				out.WriteString(old[at])
			}
			at++
		// "\ No newline at end of file": the line before has none.
		case '\\':
			if added {
				text := strings.TrimSuffix(out.String(), "\n")
				out.Reset()
				out.WriteString(text)
			}
		default:
			return "", errors.New("the diff is not valid")
		}
		added = line[0] == '+'
	}
	if !inHunk {
		return "", errors.New("the diff is empty")
	}
	out.WriteString(strings.Join(old[at:], ""))
	return out.String(), nil
}
