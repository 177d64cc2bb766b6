// Package treehash computes the hashes by which other ecosystems' clients identify the
// files they have installed, and finds versions by them. It owns the registry's tables
// registry_tree_hashes and registry_tree_backfill.
package treehash

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"

	"github.com/whetstone-dev/whetstone/internal/base/spool"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/gittree"
)

// A Kind is an algorithm for hashing a folder.
type Kind string

// The kinds.
const (
	// ClawHub is the fingerprint of the clawhub CLI: lines "path:sha256", without
	// hidden files and node_modules. Releases before 0.23 leave out more, so a skill
	// may have several.
	ClawHub Kind = "clawhub"
	// ClawHubSource is what the clawhub CLI expects of a skill that it fetches from
	// GitHub: path NUL size NUL sha256, of the same files.
	ClawHubSource Kind = "clawhub-source"
	// SkillsLock is computedHash in skills-lock.json: paths and contents, without
	// .git and node_modules.
	SkillsLock Kind = "skills-lock"
	// WellKnown is wellKnownDigest in skills-lock.json of a skill that came from an
	// index of version 0.1.0: path NUL content NUL.
	WellKnown Kind = "well-known"
	// ToolHive is contentDigest in toolhive.lock.yaml, without its "sha256:": path
	// NUL sha256 LF. In base64url it is the skill_digest proposed for Agent Skills.
	ToolHive Kind = "toolhive"
	// Plugin is the SHA-256 of the zip that plugin marketplaces serve: see
	// skillpkg.Package.AddTo and PluginFolder.
	Plugin Kind = "plugin-zip"
	// DirHash is the hash of Go modules, without its "h1:", in hex instead of
	// base64: lines "sha256  path".
	DirHash Kind = "dirhash"
	// GitTree is the name of the git tree with the files; "" where git would refuse
	// one of them.
	GitTree Kind = "git-tree"
)

// A Hash is a hash in lower-case hex.
type Hash struct {
	Kind Kind
	Hex  string
}

// PluginFolder is where a plugin holds the files of its skill. They can't be at the
// plugin's root: a hooks/hooks.json or .mcp.json of the skill would then be the plugin's
// own, and run.
func PluginFolder(name string) string { return "skills/" + name + "/" }

// Of returns all hashes of the files that a package installs under a name.
func Of(p *skillpkg.Package, name string) ([]Hash, error) {
	byPath := p.Installed()
	// The order of JavaScript's localeCompare is Unicode collation: "scripts/x.sh" sorts
	// before "SKILL.md". A Collator isn't safe for concurrent use, hence one per call.
	collator := collate.New(language.Und)
	collated := slices.SortedStableFunc(slices.Values(byPath), func(a, b skillpkg.File) int {
		return collator.CompareString(a.Path, b.Path)
	})
	var shown, unversioned []skillpkg.File // in collation order, too
	for _, f := range collated {
		folders := strings.Split(f.Path, "/")
		if !slices.ContainsFunc(folders, func(s string) bool { return s[0] == '.' || s == "node_modules" }) {
			shown = append(shown, f)
		}
		folders = folders[:len(folders)-1]
		if !slices.ContainsFunc(folders, func(s string) bool { return s == ".git" || s == "node_modules" }) {
			unversioned = append(unversioned, f)
		}
	}
	lock, err := contentHash(p, unversioned, "")
	if err != nil {
		return nil, err
	}
	wellKnown, err := contentHash(p, byPath, "\x00")
	if err != nil {
		return nil, err
	}
	fingerprint := func(files []skillpkg.File) Hash {
		return Hash{ClawHub, linesHash(files, func(f skillpkg.File) string { return f.Path + ":" + f.SHA256 })}
	}
	hashes := []Hash{
		fingerprint(shown),
		{ClawHubSource, linesHash(shown, func(f skillpkg.File) string {
			return f.Path + "\x00" + strconv.FormatInt(f.Size, 10) + "\x00" + f.SHA256
		})},
		{SkillsLock, lock},
		{WellKnown, wellKnown},
	}
	// Older releases of clawhub hash fewer files; add their fingerprints if they differ.
	for _, older := range []func(string) bool{isText05, isText20} {
		texts := slices.DeleteFunc(slices.Clone(shown), func(f skillpkg.File) bool { return !older(f.Path) })
		if h := fingerprint(texts); len(texts) > 0 && !slices.Contains(hashes, h) {
			hashes = append(hashes, h)
		}
	}
	toolHive, dir := sha256.New(), sha256.New()
	for _, f := range byPath {
		sum, err := hex.DecodeString(f.SHA256)
		if err != nil {
			return nil, fmt.Errorf("digest of %s: %w", f.Path, err)
		}
		fmt.Fprintf(toolHive, "%s\x00%s\n", f.Path, sum)
		fmt.Fprintf(dir, "%s  %s\n", f.SHA256, f.Path)
	}
	plugin, err := pluginHash(p, name)
	if err != nil {
		return nil, err
	}
	tree, err := gitTree(p)
	return append(hashes, Hash{ToolHive, hexOf(toolHive)}, Hash{DirHash, hexOf(dir)},
		Hash{Plugin, plugin}, Hash{GitTree, tree}), err
}

// gitTree returns the tree's object id, or "" if git can't represent the files.
func gitTree(p *skillpkg.Package) (string, error) {
	if !gittree.Fits(p) {
		return "", nil
	}
	folder, err := gittree.Of(p)
	return folder.Root.String(), err
}

// pluginHash hashes the zip while it's written, without keeping it.
func pluginHash(p *skillpkg.Package, name string) (string, error) {
	sum := sha256.New()
	out := zip.NewWriter(sum)
	if err := p.AddTo(out, PluginFolder(name)); err != nil {
		return "", err
	}
	err := out.Close()
	return hexOf(sum), err
}

// texts05 are the extensions of files that clawhub 0.5 to 0.8 hash; texts20 are those
// that 0.20 adds.
const (
	texts05 = " md mdx txt json json5 yaml yml toml js cjs mjs ts tsx jsx py sh rb go rs swift kt java cs cpp c h hpp sql csv ini cfg env" +
		" xml html css scss sass svg "
	texts20 = " ps1 psm1 psd1 r tsv conf properties dat "
)

func isText05(file string) bool { return strings.Contains(texts05, extension(file)) }

// isText20 treats a file without an extension as text; the client looks at its content
// instead.
func isText20(file string) bool {
	return isText05(file) || strings.Contains(texts20, extension(file)) || path.Ext(file) == ""
}

// extension returns e.g. " md ", to search for in the lists.
func extension(file string) string {
	return " " + strings.ToLower(strings.TrimPrefix(path.Ext(file), ".")) + " "
}

func hexOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// linesHash is the SHA-256 of lines joined by LF, without one at the end.
func linesHash(files []skillpkg.File, line func(skillpkg.File) string) string {
	lines := make([]string, len(files))
	for i, f := range files {
		lines[i] = line(f)
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:])
}

// contentHash hashes paths and contents, with end after each.
func contentHash(p *skillpkg.Package, files []skillpkg.File, end string) (string, error) {
	h := sha256.New()
	for _, f := range files {
		r, err := p.Open(f.Path)
		if err != nil {
			return "", err
		}
		_, _ = io.WriteString(h, f.Path+end) // a hash's Write never fails
		if _, err := spool.Copy(h, r); err != nil {
			return "", err
		}
		_, _ = io.WriteString(h, end)
	}
	return hexOf(h), nil
}

// Parse reads a hash as clients write it: in hex or base64, with its prefix, e.g.
// "sha256:" or "h1:". It returns "" if it isn't a hash of that kind.
func Parse(kind Kind, text string) string {
	var raw []byte
	switch {
	case kind == DirHash && strings.HasPrefix(text, "h1:"):
		raw, _ = base64.StdEncoding.DecodeString(text[len("h1:"):])
	case kind == ToolHive && strings.HasPrefix(text, "sha256-"):
		raw, _ = base64.RawURLEncoding.DecodeString(text[len("sha256-"):])
	default:
		raw, _ = hex.DecodeString(strings.TrimPrefix(text, "sha256:"))
	}
	if len(raw) != sha256.Size {
		return ""
	}
	return hex.EncodeToString(raw)
}
