package lockfiles

import (
	"encoding/json"
	"errors"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// decode decodes JSON, or names the field that has another type. Of a key that is
// there twice the last one counts, as in the clients. The problem is kept in the parser; false
// only means to stop.
func (p *parser) decode(field string, raw []byte, into any) bool {
	err := json.Unmarshal(raw, into)
	if err == nil {
		return true
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		name := strings.Trim(field+"."+wrong.Field, ".")
		p.fail(name, "must not be %s", article(wrong.Value))
		return false
	}
	p.fail("", "is not valid JSON")
	return false
}

// article writes e.g. "an object" or "a number".
func article(kind string) string {
	kind, _, _ = strings.Cut(kind, " ") // "number 1.5" has the value
	if kind == "object" || kind == "array" {
		return "an " + kind
	}
	return "a " + kind
}

// each decodes the entries of a map in the order of their names. A name becomes a part
// of messages. Sorted, so that the same file always gives the same messages.
func each[T any](p *parser, field string, all map[string]json.RawMessage, use func(name, field string, entry T)) {
	if len(all) > MaxItems {
		p.fail("", "has more than %d skills", MaxItems)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at := field + "." + shown(name)
		var entry T
		if !p.decode(at, all[name], &entry) {
			return
		}
		use(name, at, entry)
	}
}

// shown is a name as a message has it: printable, and short.
func shown(name string) string {
	const most = 100
	return text.TruncateRunes(text.PlainLine(name), most)
}

type skillsLock struct {
	Skills map[string]json.RawMessage `json:"skills"`
}

// The clients write more fields; those that don't identify a version are ignored.
type skillsEntry struct {
	SourceURL       string `json:"sourceUrl"`
	SourceBaseURL   string `json:"sourceBaseUrl"`
	SourceType      string `json:"sourceType"`
	ComputedHash    string `json:"computedHash"`
	SkillFolderHash string `json:"skillFolderHash"`
	WellKnownDigest string `json:"wellKnownDigest"`
}

// skills reads skills-lock.json of a project, which has the skills in the folders of
// the agents that they were installed for.
func (p *parser) skills(content []byte) {
	p.skillsIn(content, ".agents/skills", ".claude/skills", ".codex/skills", ".cursor/skills", ".github/skills", "skills")
}

// skillsGlobal reads ~/.agents/.skill-lock.json.
func (p *parser) skillsGlobal(content []byte) { p.skillsIn(content, "skills") }

// gitTree is skillFolderHash of what came from GitHub: it is of no use here.
var gitTree = regexp.MustCompile(`^[0-9a-fA-F]{40}$`)

func (p *parser) skillsIn(content []byte, folders ...string) {
	var lock skillsLock
	if !p.decode("", content, &lock) {
		return
	}
	each(p, "skills", lock.Skills, func(name, at string, e skillsEntry) {
		i := Item{Name: name}
		for _, dir := range folders {
			// The file doesn't say which of them, so all are looked at.
			i.Folders = append(i.Folders, nonEmpty(folder(dir, name))...)
		}
		i.Source, i.Organisation = p.source(e.SourceURL)
		if source, organisation := p.source(e.SourceBaseURL); source != "" {
			i.Source, i.Organisation = source, organisation
		}
		// The digest of the index is that of the archive, or of the files with an index of
		// the older form.
		i.Hashes = p.hash(at+".wellKnownDigest", e.WellKnownDigest, archiveHash, wellKnownHash)
		i.Hashes = append(i.Hashes, p.hash(at+".computedHash", e.ComputedHash, skillsHash)...)
		if !gitTree.MatchString(e.SkillFolderHash) {
			i.Hashes = append(i.Hashes, p.hash(at+".skillFolderHash", e.SkillFolderHash, skillsHash)...)
		}
		p.add(at, i)
	})
}

type clawHubEntry struct {
	Version string `json:"version"`
	Owner   string `json:"ownerHandle"`
}

type clawHubOrigin struct {
	Registry    string `json:"registry"`
	Slug        string `json:"slug"`
	Owner       string `json:"ownerHandle"`
	Version     string `json:"installedVersion"`
	Fingerprint string `json:"fingerprint"`
}

// clawHub reads .clawhub/lock.json, and the origin.json of each skill, which has its
// fingerprint. origin.json counts only for the same version: a failed update may have left it
// behind.
func (p *parser) clawHub(content []byte) {
	var lock skillsLock
	if !p.decode("", content, &lock) {
		return
	}
	each(p, "skills", lock.Skills, func(name, at string, e clawHubEntry) {
		i := Item{Name: name, Organisation: e.Owner, Version: e.Version}
		if owner, slug, ok := strings.Cut(strings.TrimPrefix(name, "@"), "/"); ok && name[0] == '@' {
			i.Name = slug
			if i.Organisation == "" { // else it has the organisation's own spelling
				i.Organisation = owner
			}
		}
		dir := folder("skills", name)
		i.Folders = nonEmpty(path.Join("..", dir))
		if dir == "" {
			i.Folders = nil
		} else if raw := p.near.file(path.Join("..", dir, ".clawhub/origin.json")); raw != nil {
			var o clawHubOrigin
			if json.Unmarshal(raw, &o) == nil && o.Version == e.Version {
				p.origin(at, o, &i)
			}
		}
		p.add(at, i)
	})
}

// clawHubOrigin reads .clawhub/origin.json of one skill.
func (p *parser) clawHubOrigin(content []byte) {
	var o clawHubOrigin
	if !p.decode("", content, &o) {
		return
	}
	if o.Slug == "" {
		p.fail("slug", "is missing")
		return
	}
	i := Item{Name: o.Slug, Organisation: o.Owner, Version: o.Version, Folders: []string{".."}}
	p.origin("", o, &i)
	p.add("", i)
}

// The lock file's organisation wins over that in the registry's address.
func (p *parser) origin(at string, o clawHubOrigin, i *Item) {
	source, organisation := p.source(o.Registry)
	i.Source = source
	if i.Organisation == "" {
		i.Organisation = organisation
	}
	i.Hashes = p.hash(strings.Trim(at+".fingerprint", "."), o.Fingerprint, clawHubHash)
}

type claudePlugins struct {
	Plugins map[string]json.RawMessage `json:"plugins"`
}

type claudePlugin struct {
	InstallPath string `json:"installPath"`
	Version     string `json:"version"`
}

type claudeMarketplace struct {
	Source struct {
		URL string `json:"url"`
	} `json:"source"`
}

// claude reads installed_plugins.json, and known_marketplaces.json beside it, which
// has the addresses. Both files are in the same folder; the second is optional.
func (p *parser) claude(content []byte) {
	var installed claudePlugins
	if !p.decode("", content, &installed) {
		return
	}
	known := map[string]json.RawMessage{}
	_ = json.Unmarshal(p.near.file("known_marketplaces.json"), &known) // without it there are no addresses
	each(p, "plugins", installed.Plugins, func(name, at string, all oneOrMore) {
		for _, plugin := range all {
			var m claudeMarketplace
			_, marketplace := cutPlugin(name)
			_ = json.Unmarshal(known[marketplace], &m) // an unknown form has no address
			p.plugin(at, name, plugin.Version, m.Source.URL, plugin.InstallPath)
		}
	})
}

// oneOrMore is an installation, as the first form of the file has it, or one for each
// scope.
type oneOrMore []claudePlugin

// UnmarshalJSON takes either.
func (o *oneOrMore) UnmarshalJSON(raw []byte) error {
	if raw[0] == '[' {
		return json.Unmarshal(raw, (*[]claudePlugin)(o))
	}
	*o = make(oneOrMore, 1)
	return json.Unmarshal(raw, &(*o)[0])
}

// contentVersion is the version of a plugin that has none of its own: the beginning of
// the SHA-256 of its archive.
var contentVersion = regexp.MustCompile(`^[0-9a-f]{12}$`)

// plugin adds a plugin, which is called "name@marketplace".
func (p *parser) plugin(at, name, version, address, dir string) {
	plugin, marketplace := cutPlugin(name)
	i := Item{Name: plugin, Version: version, Plugin: true, Folders: nonEmpty(dir)}
	if i.Source, i.Organisation = p.source(address); i.Source == "" {
		// The name of our marketplaces tells the organisation, if its characters are fit.
		i.Organisation, _ = strings.CutPrefix(marketplace, "whetstone-")
		if i.Organisation == marketplace {
			i.Organisation = ""
		}
	}
	if contentVersion.MatchString(version) {
		i.Hashes = []Hash{{pluginHash, version}}
	}
	p.add(at, i)
}

func cutPlugin(name string) (plugin, marketplace string) {
	plugin, marketplace, _ = strings.Cut(name, "@")
	return plugin, marketplace
}

type whetstoneEntry struct {
	ContentHash string `json:"content_hash"`
	EntryID     string `json:"entry_id"`
	Server      string `json:"server"`
	Version     string `json:"version"`
}

// whetstone reads .whetstone-lock.json.
func (p *parser) whetstone(content []byte) {
	var lock skillsLock
	if !p.decode("", content, &lock) {
		return
	}
	each(p, "skills", lock.Skills, func(name, at string, e whetstoneEntry) {
		i := Item{Name: name, EntryID: e.EntryID, Version: e.Version, Folders: nonEmpty(folder(name))}
		i.Source, _ = p.source(e.Server)
		i.Hashes = p.hash(at+".content_hash", e.ContentHash, archiveHash)
		p.add(at, i)
	})
}
