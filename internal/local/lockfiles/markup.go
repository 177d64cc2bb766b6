package lockfiles

import (
	"fmt"
	"maps"
	"slices"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"
)

type toolHiveLock struct {
	Skills []yaml.Node `yaml:"skills"`
}

type toolHiveSkill struct {
	Name          string `yaml:"name"`
	Version       string `yaml:"version"`
	Source        string `yaml:"source"`
	ContentDigest string `yaml:"contentDigest"`
}

// toolHive reads toolhive.lock.yaml. The file is made by a program: anchors and
// aliases, which can blow it up, have no place in it.
func (p *parser) toolHive(content []byte) {
	if p.tooMuchMarkup(content) {
		return
	}
	var document yaml.Node
	if yaml.Unmarshal(content, &document) != nil {
		p.fail("", "is not valid YAML")
		return
	}
	if hasAlias(&document) {
		p.fail("", "has aliases")
		return
	}
	var lock toolHiveLock
	if len(document.Content) > 0 && document.Decode(&lock) != nil {
		p.fail("skills", "must be a list")
		return
	}
	if len(lock.Skills) > MaxItems {
		p.fail("", "has more than %d skills", MaxItems)
		return
	}
	for n := range lock.Skills {
		at := fmt.Sprintf("skills[%d]", n)
		var s toolHiveSkill
		if lock.Skills[n].Decode(&s) != nil {
			p.fail(at, "must have texts as name, version, source and contentDigest")
			return
		}
		if s.Name == "" {
			p.fail(at+".name", "is missing")
			return
		}
		i := Item{Name: s.Name, Version: s.Version}
		i.Source, i.Organisation = p.source(s.Source)
		i.Hashes = p.hash(at+".contentDigest", s.ContentDigest, toolHiveHash)
		p.add(at, i)
	}
}

func hasAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasAlias)
}

func (p *parser) tooMuchMarkup(content []byte) bool {
	if len(content) > maxMarkup {
		p.fail("", "is larger than %d MiB", maxMarkup>>20)
	}
	return len(content) > maxMarkup
}

type codexConfig struct {
	Marketplaces map[string]struct {
		Source string `toml:"source"`
	} `toml:"marketplaces"`
	Plugins map[string]struct{} `toml:"plugins"`
}

// codex reads config.toml, which names the plugins, and the versions in the cache.
func (p *parser) codex(content []byte) {
	if p.tooMuchMarkup(content) {
		return
	}
	var config codexConfig
	if _, err := toml.Decode(string(content), &config); err != nil {
		// The message of the decoder may quote the file, which has keys in it.
		p.fail("", "is not valid TOML, or has plugins in an unknown form")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(config.Plugins)) {
		at := "plugins." + shown(name)
		plugin, marketplace := cutPlugin(name)
		source := config.Marketplaces[marketplace].Source
		cache := folder("plugins/cache", marketplace, plugin)
		versions := []string(nil)
		if cache != "" {
			versions = p.near.dir(cache)
		}
		if len(versions) == 0 {
			p.plugin(at, name, "", source, "")
		}
		for _, version := range versions {
			p.plugin(at, name, version, source, folder(cache, version))
		}
	}
}
