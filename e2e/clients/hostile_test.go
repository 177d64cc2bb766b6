package clients_test

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/catalogtest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// pushHostile pushes all that the registry accepts.
func pushHostile(caller *apptest.Caller) {
	caller.T.Helper()
	author := &registrytest.Client{Caller: caller}
	for _, s := range append(catalogtest.Listed(), catalogtest.Unlisted()...) {
		fields := object{"visibility": "org"}
		if s.Description != nil {
			fields["description"] = *s.Description
		}
		var members []registrytest.Member
		for _, path := range s.Paths() {
			members = append(members, registrytest.File(path, s.Files[path]))
		}
		author.Made(s.Name, s.Version, registrytest.Pack(caller.T, members...), fields)
	}
}

// A cage is a folder deep enough for what climbs out of a client's home to be found.
type cage struct {
	t          *testing.T
	root, home string
}

func newCage(t *testing.T) cage {
	t.Helper()
	dir := t.TempDir()
	home := filepath.Join(dir, "1/2/3/4/5/6/home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	return cage{t, dir, home}
}

// wantOnly fails if a file lies outside of the folders, or where a skill wanted to
// write one.
func (c cage) wantOnly(folders ...string) {
	c.t.Helper()
	err := filepath.WalkDir(c.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		for _, folder := range folders {
			if strings.HasPrefix(path, filepath.Join(c.home, folder)+"/") || path == filepath.Join(c.home, folder) {
				return nil
			}
		}
		c.t.Errorf("%s was written", path)
		return nil
	})
	if err != nil {
		c.t.Error(err)
	}
	for _, path := range []string{"/tmp/evil", "/etc/evil", "/evil"} {
		if _, err := os.Lstat(path); err == nil {
			c.t.Errorf("%s exists", path)
		}
	}
}

// wantSkills compares every file below a folder with one of skills per name.
func (c cage) wantSkills(folder string, skills []catalogtest.Skill, added ...string) {
	c.t.Helper()
	want := map[string]string{}
	for _, s := range skills {
		for path, content := range s.Files {
			want[s.Name+"/"+path] = content
		}
	}
	dir := filepath.Join(c.home, folder)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if wanted, ok := want[name]; err == nil && (!ok || wanted != string(content)) {
			for _, suffix := range added {
				if strings.HasSuffix(name, suffix) {
					delete(want, name)
					return nil
				}
			}
			c.t.Errorf("%s holds %q, want %q (%t)", name, content, wanted, ok)
		}
		delete(want, name)
		return err
	})
	if err != nil {
		c.t.Error(err)
	}
	for name := range want {
		c.t.Errorf("%s is missing", name)
	}
}

// TestHostile installs all hostile skills with one call of each client.
func TestHostile(t *testing.T) {
	t.Parallel()
	org := newOrganisation(t, "hostile")
	pushHostile(org.Caller)
	token := org.Post("/api/v1/catalog-tokens", object{"name": "CI"}).Want(http.StatusCreated).Text("token")
	address := site.server.URL + "/o/hostile/" + token
	listed := catalogtest.Listed()
	t.Run("skills", func(t *testing.T) {
		t.Parallel()
		c := newCage(t)
		skillsProgram(t, c.home, "", "add", address, "--skill", "*", "--agent", "claude-code", "--yes", "--copy")
		c.wantSkills(".claude/skills", slices.DeleteFunc(listed, func(s catalogtest.Skill) bool {
			return strings.Contains(s.Files["SKILL.md"], "a: b: c") // whose YAML it does not repair
		}))
		c.wantOnly(".claude/skills", "skills-lock.json")
	})
	t.Run("clawhub", func(t *testing.T) {
		t.Parallel()
		client, c := newClawHub(t, "clawhub", address), newCage(t)
		client.home = c.home
		listed := catalogtest.Listed()
		lock := object{}
		for _, s := range listed {
			lock[s.Name] = object{"version": "0.0.0-0", "installedAt": 1}
			delete(s.Files, "__proto__") // it unpacks into a JavaScript object, which loses that file
		}
		raw, err := json.Marshal(object{"version": 1, "skills": lock})
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(c.home, "work"), map[string]string{".clawhub/lock.json": string(raw)})
		client.run(nil, "update", "--all", "--force")
		c.wantSkills("work/skills", listed, ".clawhub/origin.json")
		c.wantOnly("work/skills", "work/.clawhub", "config.json")
	})
}

// TestHostileClaudeCode installs the plugin with all hostile skills, and those that
// look like plugins: their parts are not the plugin's.
func TestHostileClaudeCode(t *testing.T) {
	t.Parallel()
	client := newClaude(t)
	pushHostile(client.author.Caller)
	token := client.author.Post("/api/v1/catalog-tokens", object{"name": "CI"}).Want(http.StatusCreated).Text("token")
	c := newCage(t)
	client.home = c.home
	client.plugin("marketplace", "add", "https://"+publicHost+"/o/default/"+token+"/marketplace.json")
	client.plugin("install", "everything-skills@whetstone-default")
	folder, err := filepath.Rel(c.home, client.installed("everything-skills", "*", "skills"))
	if err != nil {
		t.Fatal(err)
	}
	c.wantSkills(folder, catalogtest.Listed())
	for _, plugin := range []string{"plugin-parts", "plugin-manifest"} {
		client.plugin("install", plugin+"@whetstone-default")
		details := client.plugin("details", plugin+"@whetstone-default")
		for _, want := range []string{"Skills (1)  " + plugin, "Agents (0)", "Hooks (0)", "MCP servers (0)"} {
			if !strings.Contains(details, want) {
				t.Errorf("%s has not %q:\n%s", plugin, want, details)
			}
		}
	}
	c.wantOnly(".claude", ".claude.json")
}
