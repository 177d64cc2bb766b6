// Package lockfiles reads the files in which installers note what they have
// installed: skills, clawhub, Claude Code, Codex, ToolHive and whetstone. The files
// are untrusted, since they come with repositories and by upload: what is read is
// bounded, unknown fields and newer forms are accepted, and an address loses its
// credentials as it is read. It owns no tables.
package lockfiles

import (
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// A Client is a program that installs skills, as installation records name it.
type Client string

// The clients.
const (
	Skills     Client = "skills"
	ClawHub    Client = "clawhub"
	ClaudeCode Client = "claude-code"
	Codex      Client = "codex"
	ToolHive   Client = "toolhive"
	Whetstone  Client = "whetstone"
)

// Update is the command that updates what the client has installed.
func (c Client) Update() string {
	switch c {
	case Skills:
		return "DISABLE_TELEMETRY=1 npx skills update"
	case ClawHub:
		return "clawhub update --all # never goes down: clawhub install NAME --version VERSION --force does"
	case ClaudeCode:
		return "claude plugin marketplace update && claude plugin update PLUGIN@MARKETPLACE"
	case Codex:
		return "codex plugin marketplace upgrade MARKETPLACE && codex plugin add PLUGIN@MARKETPLACE"
	case ToolHive:
		return "thv skill upgrade"
	case Whetstone:
	}
	return "whetstone sync"
}

// A Hash names the files of a version. The kinds are those of
// internal/publish/registry/treehash and "archive", the SHA-256 of an archive.
type Hash struct {
	Kind string `json:"kind"`
	Hex  string `json:"hash"`
}

// The kinds of hashes that lock files have.
const (
	archiveHash   = "archive"
	clawHubHash   = "clawhub"
	skillsHash    = "skills-lock"
	wellKnownHash = "well-known"
	toolHiveHash  = "toolhive"
	pluginHash    = "plugin-zip"
)

// An Item is one skill, or one plugin, of a lock file.
type Item struct {
	Name         string
	Organisation string // "" if the file does not say
	Version      string // "" if the file does not say
	EntryID      string // of whetstone only
	Hashes       []Hash
	// Source is the address that it came from, without credentials and without what
	// follows the organisation: "https://host/o/acme"; "" if the file does not say.
	Source string
	// Folders are where it may be installed: relative to the folder of the lock file,
	// with slashes; or, as Claude Code writes it, absolute.
	Folders []string
	// Plugin reports that the folder may hold several skills, in skills/.
	Plugin bool
}

// A File is a lock file.
type File struct {
	Client Client
	Items  []Item // by name
	// Secrets are the kinds of credentials in its addresses, e.g. "a catalog token".
	Secrets []string
}

// Near reads what lies near a lock file, by paths relative to its folder. What is not
// there is an error, which is no failure. The zero Near has nothing.
type Near struct {
	ReadFile func(name string) ([]byte, error)
	ReadDir  func(name string) (names []string, err error)
}

func (n Near) file(name string) []byte {
	if n.ReadFile == nil {
		return nil
	}
	content, err := n.ReadFile(name)
	if err != nil || len(content) > MaxSize {
		return nil
	}
	return content
}

func (n Near) dir(name string) []string {
	if n.ReadDir == nil {
		return nil
	}
	names, _ := n.ReadDir(name)
	return names[:min(len(names), maxFolders)]
}

const (
	// MaxSize is how many bytes a lock file may have; that of whetstone names every
	// file of every skill.
	MaxSize = 8 << 20
	// maxMarkup is MaxSize of YAML and TOML, which take far more memory than JSON.
	maxMarkup = 1 << 20
	// MaxItems is how many skills a lock file may have.
	MaxItems = 5_000
	// maxText is how many bytes a name, a version or a path may have.
	maxText = 1_024
	// maxFolders is how many versions of a plugin are looked at.
	maxFolders = 20
)

// A format is a kind of lock file.
type format struct {
	// path is the end of the file's path, and name the last element of it.
	path   string
	client Client
	parse  func(p *parser, content []byte)
}

func formats() []format {
	return []format{
		{"skills-lock.json", Skills, (*parser).skills},
		{".agents/.skill-lock.json", Skills, (*parser).skillsGlobal},
		{".clawhub/lock.json", ClawHub, (*parser).clawHub},
		{".clawhub/origin.json", ClawHub, (*parser).clawHubOrigin},
		{".claude/plugins/installed_plugins.json", ClaudeCode, (*parser).claude},
		{".codex/config.toml", Codex, (*parser).codex},
		{"toolhive.lock.yaml", ToolHive, (*parser).toolHive},
		{".whetstone-lock.json", Whetstone, (*parser).whetstone},
	}
}

// Names are the names of the files that Parse reads.
func Names() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, path.Base(f.path))
	}
	return names
}

// In are the paths, with slashes, that lock files have in a project or a home. The
// folders of skills there may also have one of whetstone.
func In() []string {
	return []string{
		"skills-lock.json", ".agents/.skill-lock.json", ".clawhub/lock.json", ".claude/plugins/installed_plugins.json",
		".codex/config.toml", "toolhive.lock.yaml",
		".claude/skills/.whetstone-lock.json", ".agents/skills/.whetstone-lock.json", ".whetstone-lock.json",
	}
}

// ClientOf is the client whose lock file has the name; "" if none has.
func ClientOf(name string) Client {
	f, _ := formatOf(name)
	return f.client
}

func formatOf(name string) (format, bool) {
	all := formats()
	i := slices.IndexFunc(all, func(f format) bool { return path.Base(f.path) == path.Base(name) })
	if i < 0 {
		return format{}, false
	}
	return all[i], true
}

// Parse reads a lock file. Its name decides what it is, and is in messages: e.g.
// "skills-lock.json: skills.pdf.computedHash is not 64 hex digits".
func Parse(name string, content []byte, near Near) (File, error) {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	f, ok := formatOf(name)
	p := &parser{name: name, near: near, File: File{Client: f.client, Items: []Item{}}}
	switch {
	case !ok:
		p.fail("", "is no lock file that whetstone reads; they are called %s", strings.Join(Names(), ", "))
	case len(content) > MaxSize:
		p.fail("", "is larger than %d MiB", MaxSize>>20)
	default:
		f.parse(p, content)
	}
	if p.err != nil {
		return File{}, p.err
	}
	slices.SortStableFunc(p.Items, func(a, b Item) int { return strings.Compare(a.Name, b.Name) })
	return p.File, nil
}

// A parser collects what a lock file says, up to the first error.
type parser struct {
	File
	name string
	near Near
	err  error
}

// fail notes that a field is not as it must be.
func (p *parser) fail(field, format string, args ...any) {
	if p.err != nil {
		return
	}
	at := shown(p.name)
	if field != "" {
		at += ": " + field
	}
	p.err = fault.Invalid("file", "%s %s", at, fmt.Sprintf(format, args...))
}

// add adds an item, whose field is e.g. "skills.pdf".
func (p *parser) add(field string, i Item) {
	for _, text := range append([]string{i.Name, i.Organisation, i.Version, i.EntryID}, i.Folders...) {
		if len(text) > maxText {
			p.fail(field, "has a text of more than %d bytes", maxText)
		}
	}
	if len(p.Items) == MaxItems {
		p.fail("", "has more than %d skills", MaxItems)
	}
	if p.err == nil {
		p.Items = append(p.Items, i)
	}
}

// hash reads a SHA-256, with or without "sha256:", as a hash of each of the kinds. ""
// is none.
func (p *parser) hash(field, text string, kinds ...string) []Hash {
	if text == "" {
		return nil
	}
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "sha256:"))
	if err != nil || len(raw) != 32 {
		p.fail(field, "is not 64 hex digits")
		return nil
	}
	hashes := make([]Hash, len(kinds))
	for i, kind := range kinds {
		hashes[i] = Hash{kind, hex.EncodeToString(raw)}
	}
	return hashes
}

// folder is the path of a skill below a folder, or "" for a name that leads elsewhere.
func folder(elements ...string) string {
	for _, e := range elements {
		for part := range strings.SplitSeq(e, "/") {
			if part == "" || part == "." || part == ".." || strings.ContainsAny(part, `\:`+"\x00") {
				return ""
			}
		}
	}
	return path.Join(elements...)
}

func nonEmpty(all ...string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}
