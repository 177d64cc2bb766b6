package clients_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// skillsProgram runs the skills program of npm in a home, which must work, and
// returns what it prints without colours.
func skillsProgram(t *testing.T, home, search string, args ...string) string {
	t.Helper()
	programs := servertest.InstallNPM(t, root, "e2e/clients")
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "skills"), args...)
	cmd.Dir = home
	cmd.Env = []string{
		"PATH=" + programs + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + home, "DISABLE_TELEMETRY=1", "CI=1",
		"SKILLS_API_URL=" + search,
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("skills %q: %v\n%s", args, err, out)
	}
	return regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]").ReplaceAllString(string(out), "")
}

// pack packs files as they are pushed.
func pack(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var members []registrytest.Member
	for name, content := range files {
		members = append(members, registrytest.File(name, content))
	}
	return registrytest.Pack(t, members...)
}

// TestSkills installs, updates and rolls back at every address that a skill has.
func TestSkills(t *testing.T) {
	t.Parallel()
	org := newOrganisation(t, "Skills")
	author := &registrytest.Client{Caller: org.Caller}
	first, second, own := skill("read-sheets", "One."), skill("read-sheets", "Two."), skill("own-notes", "Mine.")
	id := author.Made("read-sheets", "1.0.0", pack(t, first), object{"visibility": "public"})
	author.Made("own-notes", "1.0.0", pack(t, own))
	token := org.Post("/api/v1/catalog-tokens", object{"name": "CI"}).Want(http.StatusCreated).Text("token")
	url := site.server.URL
	private := url + "/o/Skills/" + token

	add := func(home, address, name string, want map[string]string) {
		t.Helper()
		skillsProgram(t, home, "", "add", address, "--skill", name, "--agent", "claude-code", "--yes")
		wantFiles(t, filepath.Join(home, ".claude", "skills", name), want)
	}
	for _, address := range []string{
		url, url + "/o/Skills", private, url + "/read-sheets", url + "/o/Skills/read-sheets", private + "/read-sheets",
	} {
		add(t.TempDir(), address, "read-sheets", first)
	}
	add(t.TempDir(), private, "own-notes", own)
	add(t.TempDir(), private+"/own-notes", "own-notes", own)
	if out := skillsProgram(t, t.TempDir(), "", "add", url+"/o/Skills", "--list"); strings.Contains(out, "own-notes") {
		t.Errorf("the public address lists a private skill:\n%s", out)
	}

	// What a search prints can be added.
	for search, want := range map[string]string{url: "read-sheets", url + "/o/Skills": "read-sheets", private: "own-notes"} {
		found := regexp.MustCompile(`\S+@` + want).FindString(skillsProgram(t, t.TempDir(), search, "find", strings.Split(want, "-")[1]))
		if found == "" {
			t.Errorf("%s does not find %s", search, want)
			continue
		}
		content := map[string]map[string]string{"read-sheets": first, "own-notes": own}[want]
		add(t.TempDir(), found, want, content)
	}

	// An update, a rollback and a withdrawal reach an installation.
	home := t.TempDir()
	add(home, private, "read-sheets", first)
	update := func(when string, want map[string]string) {
		t.Helper()
		skillsProgram(t, home, "", "update", "--yes")
		wantFiles(t, filepath.Join(home, ".claude", "skills", "read-sheets"), want)
		if t.Failed() {
			t.Fatalf("after %s", when)
		}
	}
	const one = "read-sheets 1.0.0 of "
	locked(t, org.Caller, home, one+"1.0.0 up_to_date")
	author.Pushed(id, "1.1.0", pack(t, second))
	locked(t, org.Caller, home, one+"1.1.0 behind")
	update("a push", second)
	locked(t, org.Caller, home, "read-sheets 1.1.0 of 1.1.0 up_to_date")
	author.Do(http.MethodPost, registrytest.EntryPath(id)+"/rollback", object{"reason": "bad"}).Want(http.StatusOK)
	locked(t, org.Caller, home, "read-sheets 1.1.0 of 1.0.0 behind")
	update("a rollback", first)
	locked(t, org.Caller, home, one+"1.0.0 up_to_date")
	author.Pushed(id, "1.2.0", pack(t, second), nil)
	update("a second push", second)
	author.Do(http.MethodPost, registrytest.VersionPath(id, "1.2.0")+"/withdraw", object{"reason": "bad"}).Want(http.StatusOK)
	// Its files are also those of 1.1.0, which was rolled back.
	author.Do(http.MethodPost, registrytest.VersionPath(id, "1.1.0")+"/withdraw", object{"reason": "bad"}).Want(http.StatusOK)
	locked(t, org.Caller, home, "read-sheets 1.2.0 of 1.0.0 withdrawn")
	update("a withdrawal", first)
	skillsProgram(t, home, "", "add", private, "--skill", "own-notes", "--agent", "claude-code", "--yes", "--global")
	write(t, filepath.Join(home, ".agents", "skills", "own-notes"), map[string]string{"SKILL.md": own["SKILL.md"] + "x"})
	locked(t, org.Caller, home, one+"1.0.0 up_to_date", "own-notes 1.0.0 of 1.0.0 modified")
}

// wantFiles compares the files of a folder, byte for byte.
func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name := range want {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		got[name] = string(content)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (- want, + got):\n%s", dir, diff)
	}
}
