package gitrepo

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/marketplace"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/gittree"
)

// A market has the names in the files of a marketplace. bundle is the name of the
// plugin that has all skills.
type market struct{ name, owner, bundle string }

// format changes with what the trees look like: commits of another one cannot be made
// again.
const format = 1

func (m market) String() string { return fmt.Sprintf("%d %q %q %q", format, m.name, m.owner, m.bundle) }

// A plugin is a skill as commits have it.
type plugin struct {
	name                        string
	since, until                int64 // numbers of commits; until 0: the newest one has it
	ownerID, entryID, versionID string
	version, description, zip   string
	tree                        gittree.Hash // of the skill

	folder gittree.Hash // of the plugin
	// entries are its lines in the files of the marketplace.
	entries [formatCount][]byte
}

// A sink takes an object and returns its name. Large objects that change a little
// with every commit have a path, by which their versions are found; others "".
type sink func(kind gittree.Kind, path string, content []byte) gittree.Hash

func hashOnly(kind gittree.Kind, _ string, content []byte) gittree.Hash {
	return gittree.Sum(kind, content)
}

const formatCount = 3

// formats are the files that clients look for a marketplace in.
var formats = [formatCount]struct {
	folders []string
	head    func(m market) any
	entry   func(p *plugin) any
}{
	{[]string{".claude-plugin"}, claudeHead, claudeEntry}, // Claude Code, Copilot
	{[]string{"plugins", ".agents"}, codexHead, codexEntry},
	{[]string{".cursor-plugin"}, cursorHead, cursorEntry},
}

// An object is JSON whose keys are sorted when it is encoded, so that the bytes and
// with them the hashes are always the same.
type object = map[string]any

// claudeHead and the functions below write the files of the formats. The heads and
// entries are those that each client documents for its marketplace.json.
// forceRemoveDeletedPlugins makes Claude Code uninstall what was withdrawn.
func claudeHead(m market) any {
	return object{
		"name": m.name, "owner": object{"name": m.owner}, "description": "Skills of " + m.owner,
		"forceRemoveDeletedPlugins": true,
	}
}

func claudeEntry(p *plugin) any {
	return object{"name": p.name, "description": p.description, "version": p.version, "source": p.source()}
}

func codexHead(m market) any {
	return object{"name": m.name, "interface": object{"displayName": m.owner}}
}

func codexEntry(p *plugin) any {
	return object{
		"name": p.name, "source": object{"source": "local", "path": p.source()},
		"policy": object{"installation": "AVAILABLE", "authentication": "ON_INSTALL"}, "category": "Skills",
	}
}

func cursorHead(m market) any {
	return object{
		"name": m.name, "owner": object{"name": m.owner}, "metadata": object{"description": "Skills of " + m.owner},
	}
}

func cursorEntry(p *plugin) any {
	return object{"name": p.name, "description": p.description, "source": p.source()}
}

// source is relative to the root of the repository.
func (p *plugin) source() string { return "./plugins/" + p.name }

// prepare fills in what the trees of all commits with the plugin share. Idempotent:
// a plugin is shared by many commits.
func (p *plugin) prepare() {
	if p.entries[0] != nil {
		return
	}
	for i, f := range formats {
		p.entries[i] = mustJSON(f.entry(p))
	}
	p.folder = p.put(hashOnly)
}

// put adds the folder of the plugin, without the files of the skill.
func (p *plugin) put(add sink) gittree.Hash {
	skills := gittree.Encode([]gittree.Entry{{Name: p.name, Mode: fs.ModeDir, Hash: p.tree}})
	return p.putWith(add, add(gittree.Tree, "", skills))
}

// putWith adds the folder of a plugin with these skills. The manifest lies where
// each client looks for it; the three files are one object.
func (p *plugin) putWith(add sink, skills gittree.Hash) gittree.Hash {
	manifest := mustJSON(object{"name": p.name, "version": p.version, "description": p.description})
	file := gittree.Entry{Name: "plugin.json", Mode: 0o644, Hash: add(gittree.Blob, "", append(manifest, '\n'))}
	folder := add(gittree.Tree, "", gittree.Encode([]gittree.Entry{file}))
	return add(gittree.Tree, "", gittree.Encode([]gittree.Entry{
		file,
		{Name: ".claude-plugin", Mode: fs.ModeDir, Hash: folder},
		{Name: ".cursor-plugin", Mode: fs.ModeDir, Hash: folder},
		{Name: "skills", Mode: fs.ModeDir, Hash: skills},
	}))
}

// attributes keep git from changing line ends.
const attributes = "* -text\n"

// put adds the tree of a marketplace with these plugins, which are sorted by name,
// except the folders of the plugins.
func (m market) put(add sink, plugins []*plugin) gittree.Hash {
	root := []gittree.Entry{{Name: ".gitattributes", Mode: 0o644, Hash: add(gittree.Blob, "", []byte(attributes))}}
	offered := plugins
	if len(plugins) > 0 {
		all := m.everything(plugins)
		offered = slices.Concat(plugins, []*plugin{all})
		folders, skills := []gittree.Entry{}, []gittree.Entry{}
		for _, p := range plugins {
			folders = append(folders, gittree.Entry{Name: p.name, Mode: fs.ModeDir, Hash: p.folder})
			skills = append(skills, gittree.Entry{Name: p.name, Mode: fs.ModeDir, Hash: p.tree})
		}
		folder := all.putWith(add, add(gittree.Tree, "skills", gittree.Encode(skills)))
		folders = append(folders, gittree.Entry{Name: all.name, Mode: fs.ModeDir, Hash: folder})
		root = append(root, gittree.Entry{
			Name: "plugins", Mode: fs.ModeDir, Hash: add(gittree.Tree, "plugins", gittree.Encode(folders)),
		})
	}
	for i, f := range formats {
		path := f.folders[0] + "/marketplace.json"
		at := gittree.Entry{Name: "marketplace.json", Mode: 0o644, Hash: add(gittree.Blob, path, m.document(i, offered))}
		for _, folder := range f.folders {
			at = gittree.Entry{Name: folder, Mode: fs.ModeDir, Hash: add(gittree.Tree, "", gittree.Encode([]gittree.Entry{at}))}
		}
		root = append(root, at)
	}
	return add(gittree.Tree, "", gittree.Encode(root))
}

// everything is the plugin with all skills. Its version is a digest of all versions,
// so that it changes with any of them.
func (m market) everything(plugins []*plugin) *plugin {
	digest := marketplace.Digest(func(yield func(string, string) bool) {
		for _, p := range plugins {
			if !yield(p.name, p.zip) {
				return
			}
		}
	})
	all := &plugin{name: m.bundle, version: digest[:12], description: "All skills of " + m.owner}
	for i, f := range formats {
		all.entries[i] = mustJSON(f.entry(all))
	}
	return all
}

// document returns marketplace.json with one plugin in each line. One per line keeps
// deltas between commits small. It is put together by hand, since the entries are
// encoded already, see prepare.
func (m market) document(format int, plugins []*plugin) []byte {
	head := mustJSON(formats[format].head(m))
	size := len(head) + 32
	for _, p := range plugins {
		size += len(p.entries[format]) + 2
	}
	out := make([]byte, 0, size)
	out = append(out, head[:len(head)-1]...)
	out = append(out, `,"plugins":[`...)
	for i, p := range plugins {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, '\n'), p.entries[format]...)
	}
	return append(out, "\n]}\n"...)
}

// mustJSON encodes what cannot fail.
func mustJSON(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings and maps of them
	}
	return raw
}
