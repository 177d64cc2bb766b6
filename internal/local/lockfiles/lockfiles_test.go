package lockfiles_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/local/lockfiles"
)

// near reads beside a file of testdata.
func near(name string) lockfiles.Near {
	dir := path.Join("testdata", path.Dir(name))
	return lockfiles.Near{
		ReadFile: func(rel string) ([]byte, error) { return os.ReadFile(path.Join(dir, rel)) },
		ReadDir: func(rel string) (names []string, err error) {
			entries, err := os.ReadDir(path.Join(dir, rel))
			for _, e := range entries {
				names = append(names, e.Name())
			}
			return names, err
		},
	}
}

// say puts an item in one line.
func say(i lockfiles.Item) string {
	line := fmt.Sprintf("%s@%s of %s from %s in %v", i.Name, i.Version, i.Organisation, i.Source, i.Folders)
	for _, h := range i.Hashes {
		line += fmt.Sprintf(" %s:%.12s", h.Kind, h.Hex)
	}
	return strings.TrimSpace(line + " " + i.EntryID)
}

// TestParse reads files that the clients wrote, with their addresses replaced; those
// of Codex and ToolHive are written by hand.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		client  lockfiles.Client
		want    []string
		secrets []string
	}{
		{
			"project/skills-lock.json", lockfiles.Skills,
			[]string{
				"notes@ of default from https://skills.example.com/o/default in [.agents/skills/notes .claude/skills/notes .codex/skills/notes " +
					".cursor/skills/notes .github/skills/notes skills/notes] archive:2dbfa2a1a6b0 well-known:2dbfa2a1a6b0 skills-lock:f5a10bb9c28a",
				"pdf@ of default from https://skills.example.com/o/default in [.agents/skills/pdf .claude/skills/pdf .codex/skills/pdf " +
					".cursor/skills/pdf .github/skills/pdf skills/pdf] archive:a073740d5195 well-known:a073740d5195 skills-lock:52c59cec75ff",
			},
			[]string{"a catalog token"},
		},
		{"home/.agents/.skill-lock.json", lockfiles.Skills, []string{
			"pdf@ of default from https://skills.example.com/o/default in [skills/pdf] archive:a073740d5195 well-known:a073740d5195",
		}, []string{"a catalog token"}},
		{"claw/.clawhub/lock.json", lockfiles.ClawHub, []string{
			"notes@1.0.0 of default from https://skills.example.com/o/default in [../skills/@default/notes] clawhub:2b6abb678cad",
			"pdf@1.0.0 of default from https://skills.example.com/o/default in [../skills/pdf] clawhub:052390ca22a8",
		}, []string{"a catalog token"}},
		{"claw/skills/pdf/.clawhub/origin.json", lockfiles.ClawHub, []string{
			"pdf@1.0.0 of default from https://skills.example.com/o/default in [..] clawhub:052390ca22a8",
		}, []string{"a catalog token"}},
		{"home/.claude/plugins/installed_plugins.json", lockfiles.ClaudeCode, []string{
			"everything@d692f7805d7a of default from https://skills.example.com/o/default in " +
				"[/home/ada/.claude/plugins/cache/whetstone-default/everything/d692f7805d7a] plugin-zip:d692f7805d7a",
			"notes@16f9216903f8 of default from https://skills.example.com/o/default in " +
				"[/home/ada/.claude/plugins/cache/whetstone-default/notes/16f9216903f8] plugin-zip:16f9216903f8",
			"pdf@1.0.0 of default from https://skills.example.com/o/default in [/home/ada/.claude/plugins/cache/whetstone-default/pdf/1.0.0]",
		}, []string{"a catalog token"}},
		{"home/.codex/config.toml", lockfiles.Codex, []string{
			"pdf@1.0.0 of acme from https://skills.example.com/o/acme in [plugins/cache/whetstone-acme/pdf/1.0.0]",
			"tables@ of acme from https://skills.example.com/o/acme in []",
		}, []string{"a catalog token"}},
		{"project/toolhive.lock.yaml", lockfiles.ToolHive, []string{"a@1.0.0 of  from  in [] toolhive:ce5696f81050"}, nil},
		{"project/.whetstone-lock.json", lockfiles.Whetstone, []string{
			"pdf@1.0.0 of  from https://skills.example.com in [pdf] archive:a073740d5195 019a8e52-0000-7000-8000-000000000001",
		}, nil},
	} {
		content, err := os.ReadFile(path.Join("testdata", c.name))
		if err != nil {
			t.Fatal(err)
		}
		f, err := lockfiles.Parse(c.name, content, near(c.name))
		if err != nil || f.Client != c.client || lockfiles.ClientOf(c.name) != c.client {
			t.Errorf("%s: %v, %s", c.name, err, f.Client)
			continue
		}
		var got []string
		for _, i := range f.Items {
			got = append(got, say(i))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if diff := cmp.Diff(c.secrets, f.Secrets); diff != "" {
			t.Errorf("secrets of %s (-want +got):\n%s", c.name, diff)
		}
		if said := fmt.Sprintf("%+v", f); strings.Contains(said, "ct_") {
			t.Errorf("the token is kept: %s", said)
		}
	}
}

// TestTolerant has what a newer release may write, and what is of no use here.
func TestTolerant(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, content, want string }{
		"empty":           {"skills-lock.json", `{}`, ""},
		"null":            {"skills-lock.json", `{"version":9,"skills":null}`, ""},
		"unknown fields":  {"skills-lock.json", `{"version":9,"x":[{}],"skills":{"a":{"new":{"b":1},"sourceType":"npm"}}}`, "a@ of  from  in "},
		"a git tree":      {".skill-lock.json", `{"skills":{"a":{"skillFolderHash":"0123456789012345678901234567890123456789"}}}`, "a@ of  from  in [skills/a]"},
		"the last counts": {"lock.json", `{"skills":{"a":{"version":"1","ownerHandle":"x"},"a":{"version":"2"}}}`, "a@2 of  from  in [../skills/a]"},
		"an older form":   {"installed_plugins.json", `{"version":1,"plugins":{"a@whetstone-acme":{"version":"2"}}}`, "a@2 of acme from  in []"},
		"empty YAML":      {"toolhive.lock.yaml", ``, ""},
		"empty TOML":      {"config.toml", ``, ""},
		"traversal":       {"lock.json", `{"skills":{"../../etc":{"version":"1"}}}`, "../../etc@1 of  from  in []"},
		"absolute":        {".whetstone-lock.json", `{"skills":{"/etc":{"version":"1"}}}`, "/etc@1 of  from  in []"},
		"a bare owner":    {"lock.json", `{"skills":{"@a/b":{"version":"1"}}}`, "b@1 of a from  in [../skills/@a/b]"},
	} {
		f, err := lockfiles.Parse(c.file, []byte(c.content), lockfiles.Near{})
		got := ""
		if len(f.Items) > 0 {
			got = say(f.Items[0])
		}
		if err != nil || !strings.HasPrefix(got, c.want) || len(f.Items) > 1 {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	var many, list strings.Builder
	for n := range lockfiles.MaxItems + 1 {
		fmt.Fprintf(&many, `"s%d":{},`, n)
		fmt.Fprintf(&list, "- {name: s%d}\n", n)
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for n := 'b'; n < 'j'; n++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", n, n, strings.Repeat(fmt.Sprintf("*%c,", n-1), 9))
	}
	for _, c := range []struct{ file, content, want string }{
		{"other.json", `{}`, "other.json is no lock file that whetstone reads; they are called skills-lock.json, "},
		{"skills-lock.json", `{`, "skills-lock.json is not valid JSON"},
		{"skills-lock.json", `[]`, "skills-lock.json must not be an array"},
		{"skills-lock.json", `{"skills":[]}`, "skills-lock.json: skills must not be an array"},
		{"skills-lock.json", `{"skills":{"pdf":"x"}}`, "skills-lock.json: skills.pdf must not be a string"},
		{"skills-lock.json", `{"skills":{"pdf":{"computedHash":1}}}`, "skills-lock.json: skills.pdf.computedHash must not be a number"},
		{"skills-lock.json", `{"skills":{"pdf":{"computedHash":"ab"}}}`, "skills-lock.json: skills.pdf.computedHash is not 64 hex digits"},
		{"skills-lock.json", `{"skills":{"%s%d":{"computedHash":"ab"}}}`, "skills-lock.json: skills.%s%d.computedHash is not 64 hex digits"},
		{"skills-lock.json", `{"skills":{"a":{"sourceUrl":"https://ct_x:st_live_y@h/","computedHash":"https://ct_secret"}}}`, "skills-lock.json: skills.a.computedHash is not 64 hex digits"},
		{".clawhub/lock.json", `{"skills":{"pdf":{"version":2}}}`, "lock.json: skills.pdf.version must not be a number"},
		{"origin.json", `{"slug":"a","fingerprint":"x"}`, "origin.json: fingerprint is not 64 hex digits"},
		{"skills-lock.json", `{"skills":{"a\u001b[2Jb":{"computedHash":"ab"}}}`, "skills-lock.json: skills.a [2Jb.computedHash is not 64 hex digits"},
		{"origin.json", `{}`, "origin.json: slug is missing"},
		{"installed_plugins.json", `{"plugins":{"a@b":[{"version":1}]}}`, "installed_plugins.json: plugins.a@b.version must not be a number"},
		{"toolhive.lock.yaml", "skills: x", "toolhive.lock.yaml: skills must be a list"},
		{"toolhive.lock.yaml", "skills: [{}]", "toolhive.lock.yaml: skills[0].name is missing"},
		{"toolhive.lock.yaml", "skills: [{name: [a]}]", "toolhive.lock.yaml: skills[0] must have texts"},
		{"toolhive.lock.yaml", "skills: [{name: a, contentDigest: x}]", "toolhive.lock.yaml: skills[0].contentDigest is not 64 hex digits"},
		{"toolhive.lock.yaml", "\x00", "toolhive.lock.yaml is not valid YAML"},
		{"toolhive.lock.yaml", bomb, "toolhive.lock.yaml has aliases"},
		{"toolhive.lock.yaml", strings.Repeat("[", 100_000), "toolhive.lock.yaml is not valid YAML"},
		{"toolhive.lock.yaml", strings.Repeat("- x\n", 300_000), "toolhive.lock.yaml is larger than 1 MiB"},
		{"toolhive.lock.yaml", "skills:\n" + list.String(), "toolhive.lock.yaml has more than 5000 skills"},
		{"config.toml", `token = "secret`, "config.toml is not valid TOML, or has plugins in an unknown form"},
		{"skills-lock.json", `{"skills":{` + strings.TrimSuffix(many.String(), ",") + `}}`, "skills-lock.json has more than 5000 skills"},
		{"skills-lock.json", strings.Repeat(" ", lockfiles.MaxSize+1), "skills-lock.json is larger than 8 MiB"},
		{"skills-lock.json", `{"x":` + strings.Repeat("[", 100_000), "skills-lock.json is not valid JSON"},
		{"skills-lock.json", `{"skills":{"` + strings.Repeat("x", 2_000) + `":{}}}`, "skills-lock.json: skills." + strings.Repeat("x", 100) + " has a text of more than 1024 bytes"},
	} {
		f, err := lockfiles.Parse(c.file, []byte(c.content), lockfiles.Near{})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || len(f.Items) > 0 {
			t.Errorf("%.80s: got %.200v, want %s", c.content, err, c.want)
		}
	}
}

// TestMemory reads the largest files: what they take is bounded by their size.
func TestMemory(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"skills":{`)
	for n := 0; b.Len() < lockfiles.MaxSize-100; n++ {
		fmt.Fprintf(&b, `"s%d":{},`, n)
	}
	content := []byte(strings.TrimSuffix(b.String(), ",") + `}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := lockfiles.Parse("skills-lock.json", content, lockfiles.Near{}); err == nil {
		t.Error("hundreds of thousands of skills are accepted")
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 32*lockfiles.MaxSize {
		t.Errorf("%d MiB for a file of 8", used>>20)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range lockfiles.In() {
		if lockfiles.ClientOf(name) == "" {
			t.Errorf("%s has no client", name)
		}
	}
	for _, c := range []lockfiles.Client{
		lockfiles.Skills, lockfiles.ClawHub, lockfiles.ClaudeCode, lockfiles.Codex, lockfiles.ToolHive, lockfiles.Whetstone,
	} {
		if c.Update() == "" {
			t.Errorf("%s has no command", c)
		}
	}
}

func FuzzParse(f *testing.F) {
	err := fs.WalkDir(os.DirFS("testdata"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || lockfiles.ClientOf(name) == "" {
			return err
		}
		content, err := os.ReadFile(path.Join("testdata", name))
		f.Add(name, content)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		got, err := lockfiles.Parse(name, content, lockfiles.Near{})
		if err != nil {
			if len(err.Error()) > 1_000 {
				t.Errorf("a message of %d bytes", len(err.Error()))
			}
			return
		}
		if len(got.Items) > lockfiles.MaxItems || got.Client == "" {
			t.Errorf("%d items of %q", len(got.Items), got.Client)
		}
		for _, i := range got.Items {
			for _, h := range i.Hashes {
				if len(h.Hex) != 64 && len(h.Hex) != 12 {
					t.Errorf("hash %q", h.Hex)
				}
			}
			if strings.Contains(i.Source, "st_live_") || strings.Contains(i.Source, "@") || strings.ContainsAny(i.Source, "?#") {
				t.Errorf("source %q", i.Source)
			}
		}
	})
}
