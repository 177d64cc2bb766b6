package versions

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/install"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/dsse"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/intoto"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// verifyCommand has the flags of `whetstone verify`. Key, KeysURL and TrustKeys say
// whom to trust; see trust.
type verifyCommand struct {
	server.Flags `embed:""`
	Target       string `arg:"" help:"Folder of an installed skill, or NAME, NAME@VERSION or ORG/NAME@VERSION of the registry."`
	As           string `env:"-" placeholder:"NAME@VERSION" help:"What the folder should be, if another program than whetstone installed it."`
	Key          string `env:"-" placeholder:"FILE" help:"Trust the public keys in this PEM file, and no others."`
	KeysURL      string `env:"-" placeholder:"URL" help:"Trust the keys at this address, e.g. a copy of the server's file."`
	TrustKeys    bool   `env:"-" help:"Trust the keys that the server has now, and remember them."`
	Strict       bool   `env:"-" help:"Fail if the folder has files that the skill does not have, e.g. .env or node_modules."`
}

// A verification is the result of the check, as --json prints it. OK is true only if
// Problems is empty.
type verification struct {
	OK           bool                 `json:"ok"`
	Organisation string               `json:"organisation"`
	Name         string               `json:"name"`
	Version      string               `json:"version"`
	State        string               `json:"state"` // candidate, published or withdrawn
	ContentHash  string               `json:"content_hash"`
	Path         string               `json:"path,omitempty"` // the folder
	Problems     []verifyProblem      `json:"problems"`
	Files        []install.Edit       `json:"files"`     // files that differ from the signed ones
	Unchecked    []string             `json:"unchecked"` // what users and interpreters put beside a skill, e.g. ".env"
	Attestations []checkedAttestation `json:"attestations"`
	Keys         string               `json:"keys"` // source of the trusted keys: pinned, first_use, file or url

	strict bool
}

// A verifyProblem is a reason why the check failed.
type verifyProblem struct {
	// Kind is unsigned, bad_signature, unknown_key, revoked_key, malformed,
	// other_subject, bad_time, archive, changed_file, extra_file, wrong_folder,
	// candidate or withdrawn.
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// A checkedAttestation is an attestation, and what is wrong with it. Problem is nil if
// it is valid. Summary is in words: what is attested, and by whom.
type checkedAttestation struct {
	PredicateType string     `json:"predicate_type"`
	KeyID         string     `json:"keyid"`
	At            *time.Time `json:"at"`
	Summary       string     `json:"summary"`
	// Workflow is the CI run with which a trusted publisher published the version.
	Workflow *intoto.Workflow `json:"workflow,omitempty"`
	Problem  *verifyProblem   `json:"problem"`

	read intoto.Read
}

// fail adds a problem.
func (r *verification) fail(kind, format string, args ...any) {
	r.Problems = append(r.Problems, verifyProblem{kind, fmt.Sprintf(format, args...)})
}

// Run verifies the target, prints the result, and exits with ExitFailed if anything is
// wrong. All problems are reported, not only the first.
func (c *verifyCommand) Run(ctx context.Context, p *term.Program) error {
	var out verification
	err := c.WithSession(p, func(s *server.Session) (err error) {
		out, err = c.verify(ctx, p, s)
		return err
	})
	if err != nil {
		return err
	}
	if err := p.Print(out, func(w io.Writer) { printResult(w, out) }); err != nil {
		return err
	}
	if !out.OK {
		return term.ExitCode(term.ExitFailed)
	}
	return nil
}

// verify compares the version and, if there is one, its folder with what the server has
// signed about it. Errors are for checks that could not be made; problems are in the
// result.
func (c *verifyCommand) verify(ctx context.Context, p *term.Program, s *server.Session) (r verification, err error) {
	t, err := c.resolve(ctx, s)
	if err != nil {
		return r, err
	}
	of := intoto.Version{Organisation: t.entry.Organisation, Name: t.entry.Name, Version: t.version.Version}
	// Lists are never null in the output of --json.
	r = verification{
		Organisation: of.Organisation, Name: of.Name, Version: of.Version, State: t.version.State,
		ContentHash: t.version.ContentHash, Path: t.path(), Problems: []verifyProblem{}, Files: []install.Edit{},
		Unchecked: []string{}, Attestations: []checkedAttestation{},
	}
	switch r.State {
	case "withdrawn":
		r.fail("withdrawn", "version %s was withdrawn: it must not be used any more", of.Version)
	case "candidate":
		r.fail("candidate", "version %s is a candidate: its gate or people have not let it pass", of.Version)
	}
	if t.dir != "" && t.name != of.Name {
		r.fail("wrong_folder", "the folder is called %s, and the lock file says that it is %s", t.name, of.Subject())
	}
	if t.record.ContentHash != "" && t.record.ContentHash != t.version.ContentHash {
		r.fail("archive", "the lock file names another archive than version %s has", of.Version)
	}
	var list struct {
		Attestations []dsse.Envelope `json:"attestations"`
	}
	path := "/api/v1/registry/" + url.PathEscape(t.entry.ID) + "/versions/" + url.PathEscape(of.Version) + "/attestations"
	if err := s.Call(ctx, http.MethodGet, path, nil, &list); err != nil {
		return r, err
	}
	// After the target was found, so that a mistyped name asks nobody to trust a
	// key.
	trust, err := c.trust(ctx, p, s)
	if err != nil {
		return r, err
	}
	r.Keys = trust.source
	var signed *intoto.Read
	for _, e := range list.Attestations {
		// An attestation of another version would be valid, too, so the subject is
		// checked.
		one := trust.check(e, of, t.version.ContentHash)
		r.Attestations = append(r.Attestations, one)
		if one.Problem != nil {
			r.Problems = append(r.Problems, *one.Problem)
		} else if one.read.Provenance != nil {
			signed = &one.read
		}
	}
	if signed == nil {
		// Without a valid provenance there is nothing to compare files with.
		r.fail("unsigned", "no valid signature says where version %s comes from", of.Version)
	} else if err := t.checkContent(ctx, s, &r, *signed); err != nil {
		return r, err
	}
	if r.strict = c.Strict; r.strict {
		for _, path := range r.Unchecked {
			r.fail("extra_file", "%s is not part of the skill", path)
		}
	}
	r.OK = len(r.Problems) == 0
	return r, nil
}

// A verifyTarget is what to verify: a version and, unless dir is empty, the folder with
// its files. A version alone is verified by its archive, which is downloaded for
// that.
type verifyTarget struct {
	entry     client.OwnedEntry
	version   client.Version
	dir, name string // dir is the parent of the folder, name its last element
	// real is the folder that a symbolic link leads to, as other installers make them.
	real   string
	record install.Record // the lock file's record; zero without one
}

// path returns the folder, or "" for a version of the registry.
func (t verifyTarget) path() string {
	if t.dir == "" {
		return ""
	}
	return filepath.Join(t.dir, t.name)
}

// resolve finds the target. A name that is written like a path is a folder. A bare name
// means a folder only if the lock file has it (or with --as): authors have a folder
// named like their skill, too, and mean the registry.
func (c *verifyCommand) resolve(ctx context.Context, s *server.Session) (t verifyTarget, err error) {
	info, err := os.Stat(c.Target)
	there := err == nil && info.IsDir()
	absolute, err := filepath.Abs(c.Target)
	if err != nil {
		return t, err
	}
	dir, name := filepath.Split(absolute)
	records, err := install.ReadLock(dir)
	if err != nil && there {
		return t, err
	}
	followed, err := filepath.EvalSymlinks(absolute)
	if err != nil && there {
		return t, err
	}
	record, recorded := records[name]
	// "./pdf" is always a folder, "pdf" mostly a name.
	written := strings.HasPrefix(c.Target, ".") || filepath.IsAbs(c.Target)
	if !written && (!there || !strings.Contains(filepath.ToSlash(c.Target), "/") && !recorded && c.As == "") {
		return findTarget(ctx, s, c.Target)
	}
	if !there {
		return t, fault.New(fault.NotFound, "%s is not a folder", term.Plain(c.Target))
	}
	if c.As != "" {
		t, err = findTarget(ctx, s, c.As)
		t.dir, t.name, t.real = dir, name, followed
		return t, err
	}
	if !recorded {
		return t, fault.New(fault.NotFound, "%s has no record of %s; say what it should be with --as NAME@VERSION",
			filepath.Join(dir, install.LockName), term.Plain(name))
	}
	// The lock file may come with a repository of somebody else: the key must not be
	// sent to the server that it names.
	if record.Server != s.Server {
		return t, fault.New(fault.Conflict, "%s was installed from %s; if you trust that server, verify it with --server %s",
			term.Plain(name), term.Plain(record.Server), term.Plain(record.Server))
	}
	detail, err := s.Entry(ctx, record.EntryID)
	if err != nil {
		return t, err
	}
	t = verifyTarget{entry: detail.Entry, dir: dir, name: name, real: followed, record: record}
	t.version, err = pickVersion(detail, record.Version)
	return t, err
}

// findTarget looks up NAME, ORG/NAME or an id, each also with @VERSION: in the caller's
// organisation, then among the public entries of others. A public entry must be named
// with its organisation, since anyone may use the name.
func findTarget(ctx context.Context, s *server.Session, text string) (t verifyTarget, err error) {
	name, version := text, ""
	if at := strings.LastIndex(text, "@"); at > 0 {
		name, version = text[:at], text[at+1:]
	}
	if server.IsID(name) {
		detail, err := s.Entry(ctx, name)
		if err != nil {
			return t, err
		}
		t.entry = detail.Entry
		t.version, err = pickVersion(detail, version)
		return t, err
	}
	organisation := ""
	if slash := strings.LastIndex(name, "/"); slash > 0 {
		organisation, name = name[:slash], name[slash+1:]
	}
	// The own organisation first, as install does.
	for _, public := range []bool{false, true} {
		entries, err := s.ListEntries(ctx, client.Filter{Name: name, Public: public})
		if err != nil {
			return t, err
		}
		entries = slices.DeleteFunc(entries, func(e client.ListedEntry) bool {
			return organisation != "" && e.Organisation != organisation
		})
		if len(entries) == 0 || public && organisation == "" {
			continue
		}
		detail, err := s.Entry(ctx, entries[0].ID)
		if err != nil {
			return t, err
		}
		t.entry = detail.Entry
		t.version, err = pickVersion(detail, version)
		return t, err
	}
	return t, fault.New(fault.NotFound, "No folder and no entry is named %s; name another organisation's entry ORG/NAME",
		term.Plain(text))
}

// pickVersion returns a version of an entry; "" means the current one. Candidates
// and withdrawn versions are found, too: the result says what they are.
func pickVersion(detail client.EntryDetail, version string) (client.Version, error) {
	for _, v := range detail.Versions {
		if version != "" && v.Version == version || version == "" && v.IsCurrent {
			return v, nil
		}
	}
	return client.Version{}, fault.New(fault.NotFound, "%s has no version %s", term.Plain(detail.Entry.Name), term.Plain(version))
}

// checkContent compares the folder with the signed files, or without a folder the
// archive that the server sends with the signed one.
func (t verifyTarget) checkContent(ctx context.Context, s *server.Session, r *verification, signed intoto.Read) error {
	// The digest of all files is signed, so files of the lock file with that digest are
	// as good as signed, and nothing needs to be downloaded.
	if files := t.record.Files; t.dir != "" && len(files) > 0 && dirHash(files) == signed.DirHash() {
		return t.compare(r, files)
	}
	// That is a problem already, and the server no longer serves the archive.
	if t.version.State == "withdrawn" {
		return nil
	}
	archive, err := s.DownloadVersion(ctx, t.entry.ID, t.version.Version,
		client.Wanted{ContentHash: signed.Subject[0].Digest["sha256"]})
	if errors.Is(err, client.ErrHash) {
		r.fail("archive", "the archive that %s sends is not the signed one", s.Server)
		return nil
	}
	if err != nil || t.dir == "" {
		return err
	}
	pkg, err := skillpkg.Open(ctx, bytes.NewReader(archive), int64(len(archive)), skillpkg.StoredLimits())
	if err != nil {
		return err
	}
	defer func() { _ = pkg.Close() }() // it was only read
	// What an installation has: links are files there.
	files := map[string]string{}
	for _, f := range pkg.Installed() {
		files[f.Path] = f.SHA256
	}
	return t.compare(r, files)
}

// maxProblems is how many files the problems name; Files has all of them.
const maxProblems = 20

// compare compares the folder with files (SHA-256 by path), and adds a problem for each
// that was changed, added or removed.
func (t verifyTarget) compare(r *verification, files map[string]string) error {
	dir, name := filepath.Split(t.real)
	state, err := install.Inspect(dir, name, install.Record{Files: files})
	if err != nil {
		return err
	}
	r.Files = append(r.Files, state.Edits...)
	// A folder of something else entirely would fill the screen.
	for i, edit := range state.Edits {
		if i == maxProblems {
			r.fail("changed_file", "%d more files differ", len(state.Edits)-maxProblems)
			break
		}
		r.fail("changed_file", "%s was %s", edit.Path, edit.Change)
	}
	r.Unchecked, err = unchecked(t.real, files, state.Edits)
	return err
}

// dirHash returns the digest of files (SHA-256 by path) as a provenance statement has
// it: the h1 hash of Go modules, in hex. It is "" if a path has a line break, which
// would make the hashed text ambiguous.
func dirHash(files map[string]string) string {
	digest := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if strings.Contains(path, "\n") {
			return ""
		}
		fmt.Fprintf(digest, "%s  %s\n", files[path], path)
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// maxUnchecked is how many files and folders are listed.
const maxUnchecked = 20

// unchecked lists what is in a folder beside the files of the skill and the edits,
// folders with a slash at the end: .git, .env, __pycache__ and the like, which people
// and interpreters make. A folder without files of the skill is listed as one and not
// entered.
func unchecked(path string, files map[string]string, edits []install.Edit) ([]string, error) {
	found := []string{}
	known := func(p string) bool {
		_, ok := files[p]
		return ok || slices.ContainsFunc(edits, func(e install.Edit) bool { return e.Path == p })
	}
	below := func(p string) bool {
		for file := range files {
			if strings.HasPrefix(file, p+"/") {
				return true
			}
		}
		return slices.ContainsFunc(edits, func(e install.Edit) bool { return strings.HasPrefix(e.Path, p+"/") })
	}
	err := fs.WalkDir(os.DirFS(path), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == "." || known(p) || len(found) == maxUnchecked {
			return err
		}
		if !d.IsDir() {
			found = append(found, p)
			return nil
		}
		if below(p) {
			return nil
		}
		// An empty folder is harmless. One that cannot be listed is not: programs may
		// still load files in it.
		if entries, err := fs.ReadDir(os.DirFS(path), p); err != nil || len(entries) > 0 {
			found = append(found, p+"/")
		}
		return fs.SkipDir
	})
	return found, err
}

// printResult prints a verification for people.
func printResult(w io.Writer, r verification) {
	name := term.Plain(r.Organisation + "/" + r.Name + "@" + r.Version)
	if r.Path != "" {
		fmt.Fprintf(w, "%s is %s\n", r.Path, name)
	} else {
		fmt.Fprintln(w, name)
	}
	for _, a := range r.Attestations {
		if a.Problem == nil {
			fmt.Fprintf(w, "  signed: %s (%s, key %.16s)\n", term.Plain(a.Summary), a.At.Format("2006-01-02 15:04 UTC"),
				term.Plain(a.KeyID))
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "  PROBLEM: %s\n", term.Plain(p.Message))
	}
	if len(r.Unchecked) > 0 && !r.strict {
		fmt.Fprintf(w, "  not part of the skill, and not checked: %s\n", term.Plain(strings.Join(r.Unchecked, ", ")))
	}
	switch {
	case !r.OK:
		fmt.Fprintln(w, "NOT verified.")
	case r.Path != "":
		fmt.Fprintln(w, "Verified: the files are those that were signed.")
	default:
		fmt.Fprintln(w, "Verified: the archive is the one that was signed.")
	}
}
